"""`treefold list` prints every row, and which of them the name of an experiment does not train."""

import pytest

from treefold.lab.cli.commands import list_everything
from treefold.lab.experiments.catalogue import FAMILIES, find_experiment


@pytest.fixture
def told(capsys):
    list_everything()
    return capsys.readouterr().out.splitlines()


def test_rows_that_run_only_by_name_are_told_apart(told):
    rows = "gru, binary-gru-assoc, binary-gru, pna, max, sum"
    others = "gated-selection-general, gated-selection, oracle"
    assert f"  second-minimum: {rows}; by name only: {others}" in told
    (plain,) = (line for line in told if line.startswith("  second-minimum-lambda: "))
    assert "by name only" not in plain


@pytest.mark.parametrize("name", [name for each in FAMILIES.values() for name in each.experiments])
def test_an_experiment_s_name_trains_the_rows_before_and_none_behind(told, name):
    (line,) = (line for line in told if line.startswith(f"  {name}: "))
    rows, _, others = line.partition(": ")[2].partition("; by name only: ")
    trained = [row.name for row in find_experiment(name, "smoke")]
    assert trained == [f"{name}/{row}" for row in rows.split(", ")]
    for other in filter(None, others.split(", ")):
        assert [row.name for row in find_experiment(f"{name}/{other}", "smoke")] == [
            f"{name}/{other}"
        ]
        assert f"{name}/{other}" not in trained
