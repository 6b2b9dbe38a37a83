"""Every example runs, in miniature, and ends in numbers or a picture."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from documents.notebook import cells_of, run_notebook

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MINIATURE = {
    "drop_in.py": ["--steps", "2"],
    "large_set.py": ["--elements", "70000", "--width", "4"],
    "living_graph.py": ["--users", "200", "--edges", "2000", "--width", "4"],
    "events_on_ray.py": ["--epochs", "1", "--events", "2000"],
}
NEEDS = {"events_on_ray.py": "ray"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_example_runs_and_prints_numbers(script):
    if script.name in NEEDS:
        pytest.importorskip(NEEDS[script.name], reason="an extra is not installed")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    done = subprocess.run(
        command + MINIATURE.get(script.name, []), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\.\d", done.stdout)


def test_there_are_six_scripts_of_under_fifty_lines_and_two_notebooks():
    lines = {script.name: len(script.read_text().splitlines()) for script in SCRIPTS}
    assert len(lines) >= 6
    assert {name: count for name, count in lines.items() if count >= 50} == {}
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs_and_ends_in_a_picture(notebook, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.close("all")
    threads = torch.get_num_threads()
    try:
        names, printed = run_notebook(notebook, steps=2, width=8, sizes=(2, 4))
        lines = pyplot.gcf().axes[0].get_lines()
    finally:
        pyplot.close("all")
        torch.set_num_threads(threads)
    drawn = {tuple(line.get_ydata()) for line in lines}
    measured = names["errors"] if "errors" in names else names["spreads"]
    assert {tuple(values) for values in measured.values()} <= drawn
    assert re.search(r"\d\.\d", printed)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_is_kept_with_its_outputs(notebook):
    cells = cells_of(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output for output in cells[-1]["outputs"] if output["output_type"] == "display_data"]
    assert "image/png" in shown[0]["data"]
    assert [o for cell in cells for o in cell["outputs"] if o["output_type"] == "error"] == []
