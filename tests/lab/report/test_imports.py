"""A report is made without torch: on a laptop, in a second, where nothing was trained."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import treefold

SOURCE = Path(treefold.__file__).parent / "report"
MODULES = sorted(SOURCE.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_modules_import_records_and_report_alone(path):
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.append(node.module)
    own = [name for name in names if name.split(".")[0] == "treefold"]
    assert all(name.startswith(("treefold.lab.runs", "treefold.lab.report")) for name in own)
    assert not {"torch", "torch_geometric", "lightning"} & {name.split(".")[0] for name in names}


def test_importing_the_report_does_not_import_torch():
    code = "import sys, treefold.lab.report; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
