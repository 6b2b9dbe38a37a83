"""Real graphs on the command line: trained, resumed and evaluated from a folder of files."""

from pathlib import Path

import pytest
from lab.cli.called import treefold

from treefold.lab.runs import Record

FEW = Path(__file__).parents[2] / "data" / "realworld"
TINY = ["--preset", "smoke", "--set", "training.epochs=1", "--set", "model.channels=4"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_DATA", "")
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))


def test_a_row_is_trained_resumed_and_evaluated_from_a_folder(tmp_path):
    treefold("train", "molhiv/binary-gru", *TINY, "--data", FEW, "--out", tmp_path)
    (folder,) = [path.parent for path in tmp_path.rglob("record.json")]
    record = Record.read(folder)
    assert record.status == "finished"
    assert record.metrics["num_graphs"] == {"train": 3, "val": 1, "test": 2}
    assert "molhiv/binary-gru" in treefold("resume", folder, "--data", FEW).stdout
    printed = treefold("evaluate", folder, "--data", FEW, "--sizes", "train,test").stdout
    assert "train" in printed
    assert "roc-auc@test" in printed


def test_missing_data_is_one_line_before_anything_begins(tmp_path):
    for command in ("train", "sweep"):
        out = tmp_path / command
        done = treefold(command, "zinc", *TINY, "--data", tmp_path, "--out", out, code=2)
        assert "Download it with `treefold data fetch zinc`" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not list(out.rglob("record.json"))
    done = treefold("train", "zinc", "--data", tmp_path / "nowhere", code=2)
    assert "nowhere, no folder" in done.stderr


def test_the_columns_and_rows_are_listed():
    printed = treefold("list").stdout
    trained = "mpnn-sum, mpnn-max, pna, gru, binary-gru, binary-gru-assoc"
    rows = f"{trained}; by name only: pna-ns, gated-selection"
    names = ("zinc", "zinc-edges", "molhiv", "cifar10", "cifar10-edges", "mnist", "mnist-edges")
    for name in names:
        assert f"  {name}: {rows}" in printed
