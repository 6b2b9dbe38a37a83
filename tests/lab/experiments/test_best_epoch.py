"""The best epoch is the best in validation, and its checkpoint is the one that counts."""

import pytest
from lab.experiments.small_runs import Crash, small, train

from treefold.checkpoints import DamagedCheckpoint
from treefold.lab.experiments.trainer import Watcher
from treefold.lab.runs import (
    Record,
)


def test_where_the_best_checkpoint_is_damaged_the_record_tells_of_the_older_one(
    tmp_path, world, monkeypatch
):
    scores = iter([0.25, 0.5, 0.5])

    def validate(*_):
        return {"validation_loss": 1.0, "validation_accuracy": next(scores)}

    def damage(row, steps):
        if row["epoch"] == 3:
            newest = max((tmp_path / "checkpoints").glob("best-*.safetensors"))
            newest.write_bytes(newest.read_bytes()[:-5])

    monkeypatch.setattr("treefold.lab.experiments.set_runner.SetRunner.validate", validate)
    record = train(tmp_path, world, small("second-minimum/max"), watcher=Watcher(epoch=damage))
    assert (record.metrics["best_epoch"], record.metrics["validation_accuracy"]) == (1, 0.25)


def test_a_best_checkpoint_that_is_gone_is_not_replaced_by_the_last(tmp_path, world):
    def lose(shown):
        raise Crash

    with pytest.raises(Crash):
        train(tmp_path, world, watcher=Watcher(evaluated=lose))
    for path in (tmp_path / "checkpoints").glob("best-*"):
        path.unlink()
    with pytest.raises(DamagedCheckpoint, match=r"no checkpoint called best, which epoch \d"):
        train(tmp_path, world)
    assert "no checkpoint called best" in Record.read(tmp_path).error


def test_an_epoch_without_a_score_is_never_the_best_one(tmp_path, world, monkeypatch):
    scores = iter([float("nan"), 0.25, float("nan")])

    def validate(*_):
        return {"validation_loss": 1.0, "validation_accuracy": next(scores)}

    monkeypatch.setattr("treefold.lab.experiments.set_runner.SetRunner.validate", validate)
    train(tmp_path, world, small("second-minimum/max"))
    metrics = Record.read(tmp_path).metrics
    assert (metrics["best_epoch"], metrics["validation_accuracy"]) == (2, 0.25)


def test_of_equally_good_epochs_that_with_the_lowest_loss_is_the_best(tmp_path, world, monkeypatch):
    losses = iter([0.3, 0.1, 0.2])

    def validate(*_):
        return {"validation_loss": next(losses), "validation_accuracy": 1.0}

    monkeypatch.setattr("treefold.lab.experiments.set_runner.SetRunner.validate", validate)
    train(tmp_path, world, small("second-minimum/max"))
    metrics = Record.read(tmp_path).metrics
    assert (metrics["best_epoch"], metrics["validation_accuracy"]) == (2, 1.0)
