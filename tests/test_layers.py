"""Packages from left to right: imports point one way, and through doors."""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import treefold

ROOT = Path(treefold.__file__).parent

SINGLE = {"names", "shapes", "cores", "atomic", "plain", "checkpoints", "saving"}
"""Files next to the packages, which any package may use."""
LIBRARY = ("algebra", "fold", "operators", "aggr", "incremental", "distributed", "finite")
LAB = ("lab.runs", "lab.tasks", "lab.networks", "lab.experiments", "lab.report", "lab.cli")

MAY_IMPORT = {
    "names": set(),
    "cores": set(),
    "shapes": {"jaxtyping"},
    "atomic": set(),
    "plain": set(),
    "checkpoints": {"torch", "safetensors", "atomic", "plain"},
    "saving": {"torch", "huggingface_hub", "atomic", "plain", "checkpoints"},
    "algebra": {"torch"},
    "fold": {"torch", "algebra"},
    "operators": {"torch", "triton", "filelock", "algebra", "fold"},
    "aggr": {"torch", "torch_geometric", "algebra", "fold", "operators"},
    "incremental": {"torch", "torch_geometric", "algebra", "fold", "operators", "aggr"},
    "distributed": {
        *{"torch", "numpy", "torch_geometric", "pyarrow", "ray"},
        *{"algebra", "fold", "operators", "aggr", "incremental"},
    },
    "finite": {"torch", "algebra", "fold", "operators"},
    "lab.tasks": {
        *{"torch", "torch_geometric", "numpy", "networkx", "rdkit", "skimage", "PIL"},
        *{"algebra", "fold", "operators", "aggr"},
    },
    "lab.runs": {
        *{"torch", "numpy", "filelock", "lightning_fabric", "torchmetrics", "treefold"},
        *{"algebra", "fold", "operators", "aggr", "lab.tasks"},
    },
    "lab.networks": {
        *{"torch", "torch_geometric", "algebra", "fold", "operators", "aggr", "lab.tasks"},
    },
    "lab.experiments": {
        *{"torch", "torchmetrics", "algebra", "fold", "operators", "aggr", "distributed"},
        "finite",
        *{"lab.tasks", "lab.networks", "lab.runs"},
    },
    "lab.report": {
        *{"jinja2", "matplotlib", "rich", "lab.runs", "lab.tasks", "lab.experiments"},
    },
    "lab.cli": {
        *{"torch", "cyclopts", "rich", "submitit", *LIBRARY},
        *{"lab.tasks", "lab.runs", "lab.networks", "lab.experiments", "lab.report"},
    },
}
"""Earlier and foreign packages that each package may import, and no others."""

FILES = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT) != Path("__init__.py")
)
DOORS = {*LIBRARY, *LAB}


def package_of(parts: Iterable[str]) -> str:
    """The package of a file or module below treefold: `algebra` of `algebra.laws`; `lab.runs`."""
    parts = [part.removesuffix(".py") for part in parts]
    return ".".join(parts[: 2 if parts[0] == "lab" else 1])


def imported_modules(path: Path) -> set[str]:
    """The modules a file names in its import statements, wherever they stand."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import; name the module in full"
            whole = node.module == "treefold"  # `from treefold import algebra` imports a package
            found |= {f"treefold.{a.name}" for a in node.names} if whole else {node.module or ""}
    return found


def origin(module: str) -> str:
    """`algebra` of `treefold.algebra.laws`, `torch` of `torch.nn`."""
    first, *rest = module.split(".")
    return package_of(rest) if first == "treefold" and rest else first


def forbidden(path: Path, package: str) -> set[str]:
    """The imports of a file that its package may not have."""
    allowed = (
        MAY_IMPORT[package] | {package} | SINGLE | set(sys.stdlib_module_names) | {"lazy_loader"}
    )
    return {origin(module) for module in imported_modules(path)} - allowed


def past_a_door(path: Path, package: str) -> set[str]:
    """The modules of other packages that a file reaches past their doors."""
    ours = {m for m in imported_modules(path) if m.startswith("treefold.")}
    deep = {m for m in ours if origin(m) in DOORS and m != f"treefold.{origin(m)}"}
    return {module for module in deep if origin(module) != package}


def in_order(may_import: Mapping[str, Iterable[str]]) -> list[str]:
    """The packages from first to last; a CycleError if some import each other in a circle."""
    own = {
        package: set(names) & set(may_import) - {package} for package, names in may_import.items()
    }
    return list(TopologicalSorter(own).static_order())


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_point_to_earlier_packages_and_through_their_doors(path):
    package = package_of(path.parts)
    if path == Path("lab/__init__.py"):
        assert imported_modules(ROOT / path) == set()
        return
    assert forbidden(ROOT / path, package) == set()
    assert past_a_door(ROOT / path, package) == set()


def test_every_file_is_in_a_package_or_one_of_the_few_next_to_them():
    packages = {package_of(path.parts) for path in FILES} - {"lab.__init__"}
    assert packages == set(MAY_IMPORT)
    assert {path.stem for path in ROOT.glob("*.py")} == {"__init__", *SINGLE}


def test_the_library_never_imports_the_lab():
    library = {*LIBRARY, *SINGLE}
    assert not any(name.startswith("lab") for package in library for name in MAY_IMPORT[package])


def test_wrong_arrows_and_doors_that_are_passed_would_be_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def later():\n    from treefold.aggr.base import x\n    import torch_geometric.nn\n"
        "    from treefold.lab.runs.record import Record\n"
    )
    assert forbidden(wrong, "fold") == {"aggr", "torch_geometric", "lab.runs"}
    assert past_a_door(wrong, "fold") == {"treefold.aggr.base", "treefold.lab.runs.record"}
    assert past_a_door(wrong, "lab.runs") == {"treefold.aggr.base"}


def test_the_packages_have_an_order_and_contributing_shows_it():
    order = in_order(MAY_IMPORT)
    text = (ROOT.parent.parent / "CONTRIBUTING.md").read_text()
    (line,) = re.findall(r"^    (algebra ← .*(?:\n    ← .*)*)$", text, re.MULTILINE)
    shown = [name.strip() for step in line.split("←") for name in step.split(",")]
    assert sorted(shown) == sorted(set(MAY_IMPORT) - SINGLE)
    earlier = {package: shown[: shown.index(package)] for package in shown}
    for package in shown:
        assert MAY_IMPORT[package] & set(shown) <= set(earlier[package]), (
            f"{package} imports a later package"
        )
    assert len(order) >= len(shown)


def test_a_circle_of_arrows_would_be_found():
    assert in_order({"b": {"torch", "a", "b"}, "a": set()}) == ["a", "b"]
    with pytest.raises(CycleError):
        in_order({"a": {"b"}, "b": {"c"}, "c": {"a"}})
