"""Every example runs, in miniature, and what it prints is what it is there to show."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from documents.notebook import cells_of, run_notebook

EXAMPLES = Path(__file__).parent.parent / "examples"
REAL_GRAPHS = Path(__file__).parent / "data" / "realworld"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MINIATURE = {
    "drop_in.py": ["--steps", "100"],
    "large_set.py": ["--elements", "70000", "--width", "4"],
    "changing_graph.py": ["--users", "200", "--edges", "2000", "--width", "4"],
    "events_on_ray.py": ["--events", "2000", "--users", "100"],
    "penalties_plain.py": ["--steps", "100"],
    "penalties_lightning.py": ["--epochs", "2"],
    "zinc.py": ["--data", "DATA", "--epochs", "20"],
}
SMALL = {"steps": 2, "width": 8, "sizes": (2, 4)}
SMALLER = {"prove_a_monoid.ipynb": {"epochs": 2, "sizes": (2, 4)}}
NEEDS = {
    "events_on_ray.py": "ray",
    "export_onnx.py": "onnxruntime",
    "penalties_lightning.py": "pytorch_lightning",
}


def numbers(pattern, printed):
    """The numbers that a pattern finds: a tuple for each line it fits."""
    found = re.findall(pattern, printed)
    assert found, f"no {pattern!r} in what was printed:\n{printed}"
    return [tuple(map(float, [one] if isinstance(one, str) else one)) for one in found]


def binary_gru_is_best_at_more_neighbours(printed):
    errors = numbers(r"error (\S+) at 2..8 neighbours, (\S+) at 26..32", printed)
    assert len(errors) == 4
    seen, denser = errors[-1]
    assert seen < 0.12
    assert denser == min(error for _, error in errors)


def most_users_are_answered_rightly(printed):
    ((right, constant),) = numbers(r"rightly: (\S+) of users; .*: (\S+)\n", printed)
    assert right > 0.95
    assert constant < 0.5


def stream_and_gradient_have_the_same_answer(printed):
    assert numbers(r"(\d+) elements, (\d+) states", printed) == [(70_000, 14)]
    ((gradient, apart),) = numbers(r"gradient (\S+), same answer (\S+) apart", printed)
    assert gradient > 0
    assert apart < 1e-6
    assert numbers(r"(-?\d+) MB more memory than for one chunk", printed)[0][0] < 100


def updates_are_a_fold_from_scratch(printed):
    assert numbers(r"(\d+) edges", printed) == [(2150,)]
    assert numbers(r"largest difference (\S+)", printed)[0][0] < 1e-5


def the_operator_is_commutative_and_not_associative(printed):
    law = r"{} +absolute +(?:\S+ +){{3}}(\S+)"
    assert numbers(law.format("commutativity"), printed)[0][0] < 1e-6
    assert numbers(law.format("associativity"), printed)[0][0] > 0.1


def only_pyg_s_answer_moves(printed):
    assert numbers(r"PyG LCMAggregation +(\S+)", printed)[0][0] > 0.1
    assert numbers(r"treefold LCMAggregation +(\S+)", printed)[0][0] < 1e-6


def onnx_runtime_agrees_with_torch(printed):
    gaps = [gap for _, gap in numbers(r"(\d+) nodes: .* differ by (\S+)", printed)]
    assert len(gaps) == 3
    assert max(gaps) < 1e-4


def the_error_falls(printed):
    errors = [error for _, error in numbers(r"epoch (\d+): mean absolute error (\S+)", printed)]
    assert len(errors) == 20
    assert errors[-1] < errors[0] / 3


def the_weight_pulls_towards_associativity(printed):
    (free, pulled) = numbers(r"error (\S+), violation of associativity (\S+)", printed)
    assert pulled[1] < 0.75 * free[1]
    assert max(free[0], pulled[0]) < 0.15  # a constant's is about 0.18


CLAIMS = {
    "penalties_plain.py": the_weight_pulls_towards_associativity,
    "penalties_lightning.py": the_weight_pulls_towards_associativity,
    "drop_in.py": binary_gru_is_best_at_more_neighbours,
    "events_on_ray.py": most_users_are_answered_rightly,
    "export_onnx.py": onnx_runtime_agrees_with_torch,
    "large_set.py": stream_and_gradient_have_the_same_answer,
    "changing_graph.py": updates_are_a_fold_from_scratch,
    "own_operator.py": the_operator_is_commutative_and_not_associative,
    "same_answer.py": only_pyg_s_answer_moves,
    "zinc.py": the_error_falls,
}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, marks=pytest.mark.long if path.name == "export_onnx.py" else [])
        for path in SCRIPTS
    ],
    ids=lambda path: path.name,
)
def test_the_example_shows_what_it_is_there_for(script, tmp_path):
    if script.name in NEEDS:
        pytest.importorskip(NEEDS[script.name], reason="an extra is not installed")
    data = shutil.copytree(REAL_GRAPHS, tmp_path / "data")  # what is read is kept beside it
    words = [str(data) if word == "DATA" else word for word in MINIATURE.get(script.name, [])]
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    CLAIMS[script.name](done.stdout)


def test_there_are_six_scripts_of_under_fifty_lines_and_three_notebooks():
    lines = {script.name: len(script.read_text().splitlines()) for script in SCRIPTS}
    assert len(lines) >= 6
    assert {name: count for name, count in lines.items() if count >= 50} == {}
    assert len(NOTEBOOKS) >= 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebook_runs_and_ends_in_a_picture(notebook, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.close("all")
    threads = torch.get_num_threads()
    try:
        names, printed = run_notebook(notebook, **SMALLER.get(notebook.name, SMALL))
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


def kept(name):
    """The output of a notebook's code cells, as it is saved."""
    cells = cells_of(EXAMPLES / name)
    return "".join(o["text"] for c in cells for o in c["outputs"] if o["output_type"] == "stream")


def rows(name):
    """The kept numbers by the name before them; where it comes twice, the first line's."""
    found = re.findall(r"^ *([a-z][a-z -]*?) ((?: *\d\.\d{4})+)$", kept(name), re.MULTILINE)
    return {row: [float(word) for word in words.split()] for row, words in reversed(found)}


def test_the_kept_monoid_is_learned_and_holds_on_larger_sets():
    errors = rows("learn_a_monoid.ipynb")
    for learned, summed, largest in zip(
        *map(errors.get, ("binary-gru", "sum", "max")), strict=True
    ):
        assert learned < min(summed, largest) / 3


def test_the_kept_monoid_is_proved():
    printed = kept("prove_a_monoid.ipynb")
    assert printed.startswith("holds for every tree: ")
    assert "10 states, 10 are needed" in printed
    assert "10 elements: a commutative monoid" in printed


def test_the_kept_models_of_brackets_are_far_better_than_a_constant():
    errors = rows("brackets.ipynb")
    at_eight = {name: values[1] for name, values in errors.items()}
    constant = at_eight.pop("constant")
    assert len(at_eight) == 4
    assert max(at_eight.values()) < constant / 5
