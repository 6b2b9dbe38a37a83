"""An error ends a run with a reason, and with all that was sound before."""

import errno
import os

import pytest
from lab.experiments.small_runs import small, train

from treefold.atomic import StorageError
from treefold.checkpoints import CheckpointStore
from treefold.lab.experiments.trainer import Trainer, Watcher
from treefold.lab.runs import FolderInUse, Record
from treefold.lab.runs.loop import NonFinite


def test_numbers_that_explode_stop_the_run_with_the_last_finite_state(tmp_path, world):
    wild = small("second-minimum/sum", "training.learning_rate=1e30", "training.schedule=constant")
    with pytest.raises(NonFinite, match=r"at epoch \d+, step \d+, .* Try a smaller"):
        train(tmp_path, world, wild)
    assert Record.read(tmp_path).status == "failed"
    tensors = CheckpointStore(tmp_path / "checkpoints", "last").load().tensors
    assert all(bool(t.isfinite().all()) for t in tensors.values() if t.is_floating_point())


def test_an_update_that_explodes_leaves_no_checkpoint_that_is_not_finite(tmp_path, world):
    wild = ("training.learning_rate=1e39", "training.schedule=constant")
    with pytest.raises(NonFinite, match=r"No state was saved: the next attempt starts from the"):
        train(tmp_path, world, small("second-minimum/sum", *wild))
    assert CheckpointStore(tmp_path / "checkpoints", "last").load() is None
    assert CheckpointStore(tmp_path / "checkpoints", "best").load() is None
    assert Record.read(tmp_path).status == "failed"


def test_the_state_that_is_saved_is_named(tmp_path, world):
    seen = []

    def explode(progress, steps):
        seen.append(progress.step)
        if len(seen) == 6:  # the second epoch's second step has been taken
            for group in trainers[0].optimizer.param_groups:
                group["lr"] = 1e39

    trainers = []

    class Watched(Trainer):
        def __init__(self, *given):
            trainers.append(self)
            super().__init__(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treefold.lab.experiments.running.Trainer", Watched)
        steady = small("second-minimum/sum", "training.schedule=constant")
        kept = r"The last finite state, of epoch 1, step 4, is saved as checkpoints/last-000001"
        with pytest.raises(NonFinite, match=kept):
            train(tmp_path, world, steady, watcher=Watcher(step=explode))
    tensors = CheckpointStore(tmp_path / "checkpoints", "last").load().tensors
    assert all(bool(t.isfinite().all()) for t in tensors.values() if t.is_floating_point())


def test_a_folder_in_use_is_refused(tmp_path, world):
    def intrude(progress, steps):
        with pytest.raises(
            FolderInUse, match=rf"in use by process {os.getpid()}, .* another --out"
        ):
            train(tmp_path, world)

    assert train(tmp_path, world, watcher=Watcher(step=intrude)).status == "finished"
    assert not (tmp_path / ".lock").exists()


def test_whatever_goes_wrong_is_in_the_record(tmp_path, world):
    def fail(progress, steps):
        raise RuntimeError("the sky is falling")

    with pytest.raises(RuntimeError):
        train(tmp_path, world, watcher=Watcher(step=fail))
    record = Record.read(tmp_path)
    assert record.status == "failed"
    assert "the sky is falling" in record.error


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("colour=red", "unknown option of binary-gru 'colour'"),
        ("associativty=1", "did you mean associativity"),
        ("law_nodes=many", "law_nodes"),
        ('operator_options={"strech":0.1}', "unknown option of operator binary-gru 'strech'"),
    ],
)
def test_an_aggregator_that_cannot_be_made_leaves_no_folder(tmp_path, world, option, message):
    wrong = small("second-minimum/binary-gru", f"aggregator.options.{option}")
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", world, wrong)
    assert not (tmp_path / "run").exists()


def test_a_full_disk_ends_the_run_with_the_earlier_checkpoint_intact(tmp_path, world, monkeypatch):
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if armed:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    armed = False
    monkeypatch.setattr(os, "fsync", full)

    def fill(progress, steps):
        nonlocal armed
        armed = progress.epoch == 2

    with pytest.raises(StorageError, match="full"):
        train(tmp_path, world, watcher=Watcher(step=fill))
    armed = False
    assert CheckpointStore(tmp_path / "checkpoints", "last").load().state["progress"]["epoch"] == 1


def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path, world):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")

    def never(progress, steps):
        raise AssertionError("it trained")

    with pytest.raises(StorageError):
        train(blocked / "run", world, watcher=Watcher(step=never))
