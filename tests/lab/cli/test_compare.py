"""`treefold compare`: from a file of graphs to a page, and one-line errors before any training."""

from pathlib import Path

import pytest
from lab.cli.called import treefold

from treefold.aggr import AGGREGATORS
from treefold.lab.runs import Record

HELPERS = Path(__file__).parents[2]
GRAPHS = f"""
import sys
sys.path.insert(0, {str(HELPERS)!r})
from lab.experiments.graph_sets import graph_classes
def dataset():
    return graph_classes(40)
"""
SMALL = ["--aggregators", "max,binary-gru", "--epochs", "2", "--channels", "8", "--threads", "1"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "mine.py"
    path.write_text(GRAPHS)
    return path


def test_a_file_of_graphs_becomes_a_page_and_the_same_command_does_nothing_twice(mine, tmp_path):
    arguments = ["compare", mine, *SMALL, "--seeds", "1", "--out", tmp_path]
    first = treefold(*arguments).stdout
    assert "mine: classification of graphs, scored by accuracy; 40 graphs" in first
    assert "binary-gru seed 0: epoch 2/2  loss" in first
    assert "Pick " in first
    assert f"the page is {tmp_path / 'comparison.html'}" in first
    assert "<h1>Aggregators on mine</h1>" in (tmp_path / "comparison.html").read_text()
    again = treefold(*arguments).stdout
    assert "2 of 2 runs were finished before" in again
    assert "epoch" not in again.partition("Pick ")[0]


def test_a_table_grows_by_a_row_for_each_run_and_minutes_are_shared(mine, tmp_path):
    short = ["--aggregators", "max,mean", "--seeds", "2", "--channels", "8", "--threads", "1"]
    limits = ["--minutes", "0.01", "--split", "graph", "--out", tmp_path]
    lines = [
        line.split() for line in treefold("compare", mine, *short, *limits).stdout.splitlines()
    ]
    head = next(number for number, line in enumerate(lines) if line[:2] == ["aggregator", "seed"])
    rows = [line for line in lines[head + 1 :] if line[1:2] in (["0"], ["1"]) and len(line) == 6]
    assert [line[:2] for line in rows] == [["max", "0"], ["mean", "0"], ["max", "1"], ["mean", "1"]]
    assert all(0 <= float(line[2]) <= 1 for line in rows)
    record = Record.read(tmp_path / "max" / "seed-0")
    assert record.recipe["training"]["seconds"] == pytest.approx(0.15)
    assert (record.recipe["task"]["split"], record.preset) == ("graph", "0.15 seconds")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "nowhere.py is not a file"),
        (["nowhere.py", "--data", "here"], "--data is for named datasets"),
        (["zinc", "--processes", "2"], "compare trains in 1 process"),
        (["zinc", "--data", "nowhere"], "is not in nowhere/ZINC"),
        (["zink"], "'zink' is no Python file and no dataset of zinc, molhiv"),
        (["zinc", "--aggregators", "binary-gur"], "did you mean binary-gru"),
        (["zinc", "--epochs", "2", "--seconds", "1"], "give one of epochs, seconds and minutes"),
        (["zinc", "--minutes", "0"], "0 minutes; expected more than 0"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, monkeypatch):
    monkeypatch.delenv("TREEFOLD_DATA", raising=False)
    printed = treefold("compare", *arguments, code=2).stderr
    assert message in printed
    assert printed.startswith("treefold: ")
    assert printed.count("\n") == 1


def test_help_explains_what_a_dataset_may_be():
    shown = " ".join(treefold("compare", "--help").stdout.split())
    for words in ("dataset()", "MUTAG", "--aggregators", "--seeds", "--seconds", "trust"):
        assert words in shown


def test_a_file_may_register_an_aggregator_of_its_own(mine, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        mine.read_text() + "import treefold\n"
        "treefold.AGGREGATORS['own'] = lambda channels: treefold.LCMAggregation(channels)\n"
    )
    own = ["--aggregators", "own", "--epochs", "1", "--channels", "8", "--threads", "1"]
    try:
        done = treefold("compare", path, *own, "--seeds", "1", "--out", tmp_path / "out")
        assert "own seed 0: epoch 1/1" in done.stdout
        AGGREGATORS.pop("own")
        done = treefold("evaluate", tmp_path / "out" / "own" / "seed-0", "--threads", "1")
        assert "accuracy@test" in done.stdout
    finally:
        AGGREGATORS.pop("own", None)
