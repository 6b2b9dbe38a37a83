"""Records are for the command line and for reports, which must not wait for torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from treefold import records

FOLDER = Path(records.__file__).parent
ALLOWED = {*sys.stdlib_module_names, "treefold"}


def imported(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_a_module_imports_the_standard_library_and_its_neighbours_only(path):
    names = set(imported(path.read_text(encoding="utf-8")))
    assert {name.partition(".")[0] for name in names} <= ALLOWED
    ours = {name for name in names if name.startswith("treefold.")}
    assert all(name.startswith("treefold.lab.runs.") for name in ours)


def test_importing_records_does_not_import_torch():
    program = "import sys, treefold.lab.runs; print('torch' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(FOLDER.parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "False"


def test_all_names_are_there():
    assert sorted(records.__all__) == sorted(set(records.__all__))
    assert all(hasattr(records, name) for name in records.__all__)
