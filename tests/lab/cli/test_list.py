"""`treefold list` prints every row that there is, and needs no torch to know them."""

import subprocess
import sys

import pytest

from treefold.aggr import AGGREGATORS
from treefold.lab.cli.app import list_
from treefold.lab.experiments.catalogue import AGGREGATOR_NAMES, FAMILIES, find_experiment
from treefold.lab.tasks import SET_TASKS


@pytest.fixture
def listed(capsys):
    list_()
    return capsys.readouterr().out.splitlines()


def test_rows_that_run_only_by_name_are_listed_apart(listed):
    rows = "gru, binary-gru-assoc, binary-gru, pna, max, sum"
    others = "gated-selection-general, gated-selection, oracle"
    assert f"  second-minimum: {rows}; by name only: {others}" in listed
    (plain,) = (line for line in listed if line.startswith("  second-minimum-lambda: "))
    assert "by name only" not in plain


@pytest.mark.parametrize("name", [name for each in FAMILIES.values() for name in each.rows])
def test_an_experiment_s_name_trains_the_rows_before_by_name_only_and_none_after(listed, name):
    (line,) = (line for line in listed if line.startswith(f"  {name}: "))
    rows, _, others = line.partition(": ")[2].partition("; by name only: ")
    trained = [row.name for row in find_experiment(name, "smoke")]
    assert trained == [f"{name}/{row}" for row in rows.split(", ")]
    for other in filter(None, others.split(", ")):
        assert [row.name for row in find_experiment(f"{name}/{other}", "smoke")] == [
            f"{name}/{other}"
        ]
        assert f"{name}/{other}" not in trained


def test_the_names_that_are_listed_are_those_of_the_modules():
    assert tuple(AGGREGATORS) == AGGREGATOR_NAMES
    assert FAMILIES["sets"].tasks == tuple(SET_TASKS)
    for family in FAMILIES.values():
        module = family.load()
        assert set(module.KINDS) == set(family.tasks)
        assert all(kind.task.name == name for name, kind in module.KINDS.items())
        assert list(getattr(module, "PRESETS", {})) == list(family.presets)
        assert set(family.with_extra) <= set(family.rows)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["train", "--help"], ["compare", "--help"]]
)
def test_names_and_help_need_no_torch(arguments):
    program = (
        "import sys\nfrom treefold.lab.cli.app import app\n"
        f"app({arguments!r}, result_action='return_value')\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout or "second-minimum: gru" in done.stdout


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("second-minimum/sum", ["networkx", "PIL", "torchmetrics", "treefold.lab.tasks.realworld"]),
        ("zinc/mpnn-sum", ["treefold.lab.tasks.multitask", "treefold.lab.tasks.set_tasks"]),
    ],
)
def test_a_recipe_imports_its_own_family_alone(name, absent):
    program = (
        "import sys, torch_geometric.nn\nbefore = set(sys.modules)\n"
        "import treefold.lab.cli.commands\n"
        "from treefold.lab.experiments import find_experiment, runner_of\n"
        f"runner_of(find_experiment({name!r}, 'smoke')[0], 0)\n"
        f"found = [m for m in {absent!r} if m in set(sys.modules) - before]\n"
        "assert not found, found\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
