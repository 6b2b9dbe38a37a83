"""Notebooks, run cell by cell as Jupyter would, with smaller parameters."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """The code cells."""
    return [
        cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"
    ]


def run_notebook(notebook: Path, **parameters: Any) -> tuple[dict[str, Any], str]:
    """Run all cells; `parameters` replace those of the cell tagged so. Gives names, and output."""
    names: dict[str, Any] = {"__name__": "notebook"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for number, cell in enumerate(cells_of(notebook), 1):
            source = "".join(cell["source"])
            exec(compile(source, f"{notebook.name}, cell {number}", "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                unknown = set(parameters) - set(names)
                assert not unknown, f"the notebook has no parameters {unknown}"
                names.update(parameters)
    return names, printed.getvalue()
