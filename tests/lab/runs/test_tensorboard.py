"""Curves for TensorBoard: there when it is installed, and hidden where they will be drawn again."""

import errno

import pytest

from treefold.atomic import StorageError
from treefold.lab.runs import metrics_log
from treefold.lab.runs.metrics_log import TensorBoardLog

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def curves(folder):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulators.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, round(event.value, 4)) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_every_number_of_an_epoch_becomes_a_point_of_a_curve(tmp_path):
    log = TensorBoardLog(tmp_path)
    log.append({"epoch": 1, "train_loss": 0.5, "law:associativity": 0.25})
    log.append({"epoch": 2, "train_loss": 0.125, "law:associativity": 0.75})
    log.close()
    assert curves(tmp_path) == {
        "train_loss": [(1, 0.5), (2, 0.125)],
        "law/associativity": [(1, 0.25), (2, 0.75)],
    }


def test_a_resumed_run_draws_its_last_epochs_once(tmp_path):
    first = TensorBoardLog(tmp_path)
    for epoch in (1, 2, 3):
        first.append({"epoch": epoch, "train_loss": 1.0})
    first.close()
    again = TensorBoardLog(tmp_path, epochs_done=1)
    again.append({"epoch": 2, "train_loss": 2.0})
    again.close()
    assert curves(tmp_path)["train_loss"] == [(1, 1.0), (2, 2.0)]


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_log, "find_spec", lambda name: None)
    log = TensorBoardLog(tmp_path)
    log.append({"epoch": 1, "train_loss": 0.5})
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_clear_error_and_closing_hides_nothing(tmp_path):
    pytest.importorskip("tensorboard")
    log = TensorBoardLog(tmp_path)

    class Full:
        def add_scalar(self, *_):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    log.close()
    log._writer = Full()
    with pytest.raises(StorageError, match=r"cannot write .*tensorboard: the disk is full"):
        log.append({"epoch": 1, "train_loss": 0.5})
    log.close()
