"""Public names exist and are documented."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import treefold

LAYERS = [
    importlib.import_module(f"treefold.{layer}")
    for layer in ("algebra", "fold", "operators", "aggr", "incremental", "distributed")
]
MODULES = [
    "treefold",
    "treefold.names",
    "treefold.shapes",
    *(layer.__name__ for layer in LAYERS),
    *(m.name for lay in LAYERS for m in pkgutil.walk_packages(lay.__path__, f"{lay.__name__}.")),
]
PACKAGES = [name for name in MODULES if hasattr(importlib.import_module(name), "__all__")]
PUBLIC = [
    (package, name) for package in PACKAGES for name in importlib.import_module(package).__all__
]


def public_members(cls):
    """Methods and properties that a class defines itself, under a public name."""
    return {
        name: member.__func__ if isinstance(member, classmethod | staticmethod) else member
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (
            inspect.isfunction(member) or isinstance(member, classmethod | staticmethod | property)
        )
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_module_opens_with_a_sentence(module):
    docstring = importlib.import_module(module).__doc__
    assert docstring
    assert docstring.strip()[0].isupper() or module in docstring.lower()


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_every_public_name_exists(package, name):
    assert hasattr(importlib.import_module(package), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_listed_once_and_in_order(package):
    names = importlib.import_module(package).__all__
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_every_public_function_and_class_has_a_docstring_of_its_own(package, name):
    thing = getattr(importlib.import_module(package), name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return
    if not getattr(thing, "__module__", "").startswith("treefold"):
        return  # jaxtyping's
    assert thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert not thing.__doc__.startswith(f"{name}("), "that is the docstring dataclass makes"


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_every_public_method_has_a_docstring(package, name):
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing) and thing.__module__.startswith("treefold"):
        members = public_members(thing)
        assert [member for member in members if not members[member].__doc__] == []


@pytest.mark.parametrize("name", treefold.__all__)
def test_what_the_front_door_offers_is_public_in_its_layer_too(name):
    thing = getattr(treefold, name)
    assert thing in LAYERS or any(
        getattr(layer, name, None) is thing and name in layer.__all__ for layer in LAYERS
    )


def test_the_front_door_lists_what_it_offers():
    assert set(treefold.__all__) <= set(dir(treefold))


def test_the_front_door_refuses_other_names():
    with pytest.raises(AttributeError, match="attribute aggregate"):
        treefold.aggregate  # noqa: B018


def test_what_needs_torch_only_is_there_without_pyg():
    code = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from treefold import BinaryGRU, Groups, algebra, law_report, plan_tree, tree_reduce\n"
        "import torch\n"
        "groups = Groups.from_index(torch.tensor([1, 0, 1]), 2)\n"
        "rows = torch.tensor([5., 1., 7.])[groups.order]\n"
        "print(tree_reduce(algebra.Max(), rows, plan_tree(groups.sizes)).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1.0, 7.0]\n"
