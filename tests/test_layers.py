"""The path data takes is one way: every import points from a later layer to an earlier one."""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import treefold

ROOT = Path(treefold.__file__).parent

EVERYWHERE = {"treefold.shapes", "treefold.names"}
CORE = {"treefold.algebra", "treefold.reduction", "treefold.operators", "treefold.aggregators"}
MAY_IMPORT = {
    "shapes": {"jaxtyping"},
    "names": set(),
    "algebra": {"torch", "treefold.algebra"},
    "reduction": {"torch", "treefold.algebra", "treefold.reduction"},
    "kernels": {"torch", "numpy", "numba", "llvmlite", "treefold.kernels"},
    "operators": {
        *{"torch", "numpy", "numba", "treefold.kernels"},
        *{"treefold.algebra", "treefold.reduction", "treefold.operators"},
    },
    "aggregators": {"torch", "torch_geometric", *CORE},
    "checkpoints": {"torch", "safetensors", "treefold.records"},
    "living": {"torch", *CORE, "treefold.checkpoints", "treefold.living"},
    "sharded": {"torch", "torch_geometric", *CORE, "treefold.sharded"},
    "tasks": {
        *{"torch", "torch_geometric", "numpy", "networkx", "rdkit", "skimage", "PIL", *CORE},
        *{"treefold.records", "treefold.tasks"},
    },
    "models": {"torch", "torch_geometric", *CORE, "treefold.tasks", "treefold.models"},
    "records": {"treefold", "treefold.records"},  # treefold itself for its version, no torch
    "training": {
        *{"torch", "numpy", "lightning_fabric", "torchmetrics", *CORE, "treefold.checkpoints"},
        *{"treefold.tasks", "treefold.models", "treefold.records", "treefold.training"},
    },
    "experiments": {
        *{"torch", *CORE, "treefold.tasks", "treefold.models", "treefold.records"},
        *{"treefold.checkpoints", "treefold.training", "treefold.experiments"},
    },
    "tables": {
        *{"torch", "numpy", "pyarrow", "ray", *CORE, "treefold.tasks", "treefold.models"},
        *{"treefold.records", "treefold.training", "treefold.experiments", "treefold.living"},
        "treefold.tables",
    },
    "lab": {"numpy", "jinja2", "matplotlib", "rich", "treefold.records", "treefold.lab"},
    "comparing": {
        *{"torch", "torch_geometric", "torchmetrics", *CORE, "treefold.tasks", "treefold.records"},
        *{"treefold.models", "treefold.training", "treefold.comparing"},
    },
    "cli": {
        *{"torch", "cyclopts", "rich", "submitit", *CORE, "treefold.models", "treefold.records"},
        *{"treefold.checkpoints", "treefold.training", "treefold.experiments"},
        *{"treefold.tables", "treefold.tasks", "treefold.lab", "treefold.comparing"},
        "treefold.cli",
    },
}
"""Earlier layers, by later ones; what is not named here is not to be imported."""

MODULES = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.py")
    if Path(path.relative_to(ROOT).parts[0]).stem in MAY_IMPORT
)


def imported_modules(path: Path) -> set[str]:
    """The modules a file names in its import statements, wherever they stand."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; name the module in full"
            whole = node.module == "treefold"  # `from treefold import algebra` imports a layer
            found |= {f"treefold.{a.name}" for a in node.names} if whole else {node.module or ""}
    return found


def layer_of(module: str) -> str:
    """`treefold.algebra.laws` is of `treefold.algebra`, `torch.nn` of `torch`."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "treefold" else 1])


def allowed_in(layer: str) -> set[str]:
    """What a layer may import; those that all others may import do not import each other."""
    return MAY_IMPORT[layer] | (set() if f"treefold.{layer}" in EVERYWHERE else EVERYWHERE)


def in_order(may_import: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The layers from first to last; those of one step do not know of each other.

    A CycleError if there is no order, because some import each other in a circle.
    """
    own = {
        layer: {name.removeprefix("treefold.") for name in names if name.startswith("treefold.")}
        for layer, names in may_import.items()
    }
    sorter = TopologicalSorter({layer: names - {layer} for layer, names in own.items()})
    sorter.prepare()
    found = []
    while sorter.is_active():
        found.append(sorted(sorter.get_ready()))
        sorter.done(*found[-1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_imports_point_to_earlier_layers(path):
    allowed = allowed_in(Path(path.parts[0]).stem)
    layers = {layer_of(module) for module in imported_modules(ROOT / path)}
    assert layers - allowed - set(sys.stdlib_module_names) == set()


def test_every_layer_is_looked_at():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages <= set(MAY_IMPORT)
    assert {Path(path.parts[0]).stem for path in MODULES} == set(MAY_IMPORT)


def test_a_wrong_arrow_would_be_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def later():\n    from treefold import aggregators\n    import torch_geometric.nn\n"
    )
    assert {layer_of(module) for module in imported_modules(wrong)} == {
        "treefold.aggregators",
        "torch_geometric",
    }


def test_the_arrows_have_an_order_and_contributing_shows_it():
    steps = in_order({layer: allowed_in(layer) for layer in MAY_IMPORT})
    assert sorted(layer for step in steps for layer in step) == sorted(MAY_IMPORT)
    expected = " ← ".join(", ".join(step) for step in steps)
    text = (ROOT.parent.parent / "CONTRIBUTING.md").read_text()
    (shown,) = re.findall(r"^Imports point one way:\n\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert " ".join(shown.split()) == expected


def test_a_circle_of_arrows_would_be_found():
    assert in_order({"b": {"torch", "treefold.a", "treefold.b"}, "a": set()}) == [["a"], ["b"]]
    with pytest.raises(CycleError):
        in_order({"a": {"treefold.b"}, "b": {"treefold.c"}, "c": {"treefold.a"}})
