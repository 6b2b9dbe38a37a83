"""A run leaves a complete record, and goes on after any interruption as if nothing had been."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from treefold.checkpoints import CheckpointStore, DamagedCheckpoint
from treefold.experiments.overrides import override
from treefold.experiments.recipe import Evaluation
from treefold.experiments.run import run
from treefold.experiments.set_experiments import find_experiment
from treefold.experiments.trainer import Trainer, Watcher
from treefold.records import (
    FolderInUse,
    MetricsLog,
    Record,
    StorageError,
    UnreadableRecord,
    as_json,
)
from treefold.tasks import SET_TASKS
from treefold.training.fit import NonFinite
from treefold.training.signals import Stopped, StopRequest
from treefold.training.world import World

SMALL = [
    "training.epochs=3",
    "training.batch_size=32",
    "model.channels=8",
    "task.num_train=128",
    "task.num_validation=16",
    "task.num_evaluation=8",
    "evaluation.sizes=1,16,32,200",
]


@pytest.fixture(scope="module")
def world():
    return World()


def small(name="second-minimum/binary-gru-assoc", *more):
    return override(find_experiment(name, "smoke")[0], [*SMALL, *more])[0]


def train(folder, world, experiment=None, seed=1, **options):
    experiment = experiment or small()
    return run(experiment, preset="smoke", seed=seed, folder=folder, world=world, **options)


def numbers(folder):
    """All that a run computed: its log without times, its scores, its last parameters."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in MetricsLog.read(folder)]
    metrics = Record.read(folder).metrics
    # A checkout may have moved on meanwhile.
    metrics = {k: v for k, v in metrics.items() if "seconds" not in k and "commit" not in k}
    tensors = CheckpointStore(folder / "checkpoints", "last").load().tensors
    return rows, metrics, {name: tensor.tolist() for name, tensor in tensors.items()}


class Crash(BaseException):
    pass


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("undisturbed")
    train(folder, world)
    return folder


def test_a_record_holds_recipe_seed_provenance_and_scores(undisturbed):
    record = Record.read(undisturbed)
    assert record.status == "finished"
    assert (record.name, record.preset, record.seed) == (
        "second-minimum/binary-gru-assoc",
        "smoke",
        1,
    )
    assert record.recipe == small().recipe()
    assert record.epochs == 3
    assert record.metrics["accuracy"].keys() == {"1", "16", "32", "200"}
    assert record.metrics["accuracy@32"] == record.metrics["accuracy"]["32"]
    assert record.versions["torch"].startswith("2.")
    assert record.reported["accuracy@200"]["value"] == 0.822
    assert any("epochs" in sentence for sentence in record.departures)


def test_the_log_has_a_row_per_epoch_with_law_violations(undisturbed):
    rows = MetricsLog.read(undisturbed)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert all(0 < row["law:associativity"] < 2 for row in rows)
    assert all(row["law:commutativity"] < 1e-5 for row in rows)
    assert rows[0]["train_loss"] != rows[1]["train_loss"]
    assert all(row["train_penalty:associativity"] > 0 for row in rows)


def test_a_run_goes_on_with_the_columns_that_its_log_began_with(tmp_path, world, undisturbed):
    def begun_by_an_older_version(row, steps):
        lines = (tmp_path / "metrics.csv").read_text().splitlines()
        where = lines[0].split(",").index("train_penalty:associativity")
        cells = [line.split(",") for line in lines]
        kept = [",".join(line[:where] + line[where + 1 :]) for line in cells]
        (tmp_path / "metrics.csv").write_text("\n".join(kept) + "\n")
        raise Crash

    with pytest.raises(Crash):
        train(tmp_path, world, watcher=Watcher(epoch=begun_by_an_older_version))
    train(tmp_path, world)
    whole = [dict(row) for row in numbers(undisturbed)[0]]
    for row in whole:
        del row["train_penalty:associativity"]
    assert numbers(tmp_path)[0] == whole


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path, world, undisturbed):
    train(tmp_path / "same", world)
    train(tmp_path / "other", world, seed=2)
    assert numbers(tmp_path / "same") == numbers(undisturbed)
    assert numbers(tmp_path / "other")[0] != numbers(undisturbed)[0]


@pytest.mark.parametrize("step", [1, 4, 6, 8, 11])
def test_a_crash_at_any_step_changes_no_number(tmp_path, world, undisturbed, step):
    seen = []

    def crash(progress, steps):
        seen.append(progress.step)
        if len(seen) == step:
            raise Crash

    with pytest.raises(Crash):
        train(tmp_path, world, watcher=Watcher(step=crash))
    train(tmp_path, world)
    assert numbers(tmp_path) == numbers(undisturbed)


@pytest.mark.parametrize("step", [2, 6])
def test_a_polite_stop_saves_within_the_epoch_and_changes_no_number(
    tmp_path, world, undisturbed, step
):
    seen = []

    def interrupt(progress, steps):
        seen.append(progress.step)
        if len(seen) == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match="SIGTERM"):
        train(tmp_path, world, watcher=Watcher(step=interrupt))
    assert Record.read(tmp_path).status == "stopped"
    after = []
    train(
        tmp_path, world, watcher=Watcher(step=lambda progress, steps: after.append(progress.step))
    )
    assert len(seen) + len(after) == 12  # no step is taken twice
    assert Record.read(tmp_path).error is None
    assert numbers(tmp_path) == numbers(undisturbed)


def test_a_killed_process_changes_no_number(tmp_path, undisturbed):
    sets = [part for item in SMALL for part in ("--set", item)]
    command = [sys.executable, "-W", "ignore", "-m", "treefold.cli", "train",
               "second-minimum/binary-gru-assoc", "--preset", "smoke", "--seed", "1",
               "--threads", "1", "--out", str(tmp_path), *sets]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not list(tmp_path.rglob("last-*.json")) and time.monotonic() < deadline:
        time.sleep(0.002)
    child.kill()
    child.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (folder,) = [path.parent for path in tmp_path.rglob("record.json")]
    assert numbers(folder) == numbers(undisturbed)


def test_a_damaged_checkpoint_is_passed_over_for_the_older_one(
    tmp_path, world, undisturbed, caplog
):
    def crash_late(progress, steps):
        if progress.epoch == 3:
            raise Crash

    with pytest.raises(Crash):
        train(tmp_path, world, watcher=Watcher(step=crash_late))
    newest = max((tmp_path / "checkpoints").glob("last-*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(content)
    train(tmp_path, world)
    assert newest.name in caplog.text
    assert numbers(tmp_path) == numbers(undisturbed)


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

    monkeypatch.setattr("treefold.experiments.set_routine.SetRoutine.validate", validate)
    record = train(tmp_path, world, small("second-minimum/max"), watcher=Watcher(epoch=damage))
    assert (record.metrics["best_epoch"], record.metrics["validation_accuracy"]) == (1, 0.25)


def test_only_the_first_process_writes(tmp_path, world, monkeypatch):
    trainer = Trainer(small(), 1, tmp_path, world)
    monkeypatch.setattr(World, "first", lambda self, action: None)
    trainer.train(Watcher(), StopRequest())
    assert trainer.standing.best_epoch > 0
    assert not (tmp_path / "metrics.csv").exists()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_finished_run_is_not_run_again(undisturbed, world):
    def never(progress, steps):
        raise AssertionError("it was run again")

    assert train(undisturbed, world, watcher=Watcher(step=never)) == Record.read(undisturbed)


def test_a_folder_with_another_run_is_refused(undisturbed, world):
    with pytest.raises(ValueError, match="holds another run"):
        train(undisturbed, world, seed=7)


@pytest.mark.parametrize("task", SET_TASKS)
def test_the_oracle_is_right_through_the_whole_pipeline(tmp_path, world, task):
    record = train(tmp_path, world, small(f"{task}/oracle"))
    assert set(record.metrics["accuracy"].values()) == {1.0}
    assert record.metrics["validation_accuracy"] == 1.0


@pytest.mark.parametrize("row", ["gru", "pna", "max", "sum"])
def test_every_kind_of_aggregator_runs(tmp_path, world, row):
    assert train(tmp_path, world, small(f"second-minimum/{row}")).status == "finished"


def test_numbers_that_explode_stop_the_run_with_the_last_finite_state(tmp_path, world):
    wild = small("second-minimum/sum", "training.learning_rate=1e30", "training.schedule=constant")
    with pytest.raises(NonFinite, match=r"at epoch \d+, step \d+, .* Try a smaller"):
        train(tmp_path, world, wild)
    assert Record.read(tmp_path).status == "failed"
    tensors = CheckpointStore(tmp_path / "checkpoints", "last").load().tensors
    assert all(bool(t.isfinite().all()) for t in tensors.values() if t.is_floating_point())


def test_an_update_that_explodes_leaves_no_checkpoint_that_is_not_finite(tmp_path, world):
    wild = ("training.learning_rate=1e39", "training.schedule=constant")
    with pytest.raises(NonFinite, match=r"No state was kept: the next attempt begins anew"):
        train(tmp_path, world, small("second-minimum/sum", *wild))
    assert CheckpointStore(tmp_path / "checkpoints", "last").load() is None
    assert CheckpointStore(tmp_path / "checkpoints", "best").load() is None
    assert Record.read(tmp_path).status == "failed"


def test_the_state_that_is_kept_is_named(tmp_path, world):
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
        patch.setattr("treefold.experiments.run.Trainer", Watched)
        steady = small("second-minimum/sum", "training.schedule=constant")
        kept = r"The last finite state, of epoch 1, step 4, is kept as checkpoints/last-000001"
        with pytest.raises(NonFinite, match=kept):
            train(tmp_path, world, steady, watcher=Watcher(step=explode))
    tensors = CheckpointStore(tmp_path / "checkpoints", "last").load().tensors
    assert all(bool(t.isfinite().all()) for t in tensors.values() if t.is_floating_point())


def test_a_stop_in_the_last_epoch_is_heard(tmp_path, world, undisturbed):
    def interrupt(progress, steps):
        if (progress.epoch, progress.step) == (3, 4):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match="SIGINT at epoch 3, step 4"):
        train(tmp_path, world, watcher=Watcher(step=interrupt))
    assert Record.read(tmp_path).status == "stopped"
    train(tmp_path, world)
    assert numbers(tmp_path) == numbers(undisturbed)


def test_a_stop_is_heard_while_the_run_is_evaluated(tmp_path, world, undisturbed):
    evaluated = []

    def interrupt(shown):
        evaluated.append(shown["size"])
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped, match="SIGINT while it was evaluated"):
        train(tmp_path, world, watcher=Watcher(evaluated=interrupt))
    assert evaluated == [1]
    assert Record.read(tmp_path).status == "stopped"
    train(tmp_path, world)
    assert numbers(tmp_path) == numbers(undisturbed)


def test_a_record_says_on_what_machine_it_was_made(undisturbed):
    machine = Record.read(undisturbed).machine
    assert machine.pop("threads") >= 1
    assert machine == {"device": "cpu", "precision": "32-true", "processes": 1}


def test_a_run_goes_on_with_another_number_of_processes_only_if_told(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    record = Record.read(tmp_path)
    machine = {**record.machine, "processes": 2}
    dataclasses.replace(record, machine=machine).write(tmp_path)
    with pytest.raises(ValueError, match=r"begun with processes 2, not processes 1.*--processes 2"):
        train(tmp_path, world)
    found = train(tmp_path, world, elsewhere=True)
    assert found.machine["processes"] == 1
    assert "went on after 3 epochs with 1 processes instead of 2" in found.departures


def test_a_record_from_before_machines_were_kept_is_gone_on_with(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    entries = json.loads((tmp_path / "record.json").read_text())
    del entries["machine"]
    (tmp_path / "record.json").write_text(json.dumps(entries))
    assert Record.read(tmp_path).machine == {}
    assert train(tmp_path, world).status == "finished"


def test_a_folder_in_use_is_refused(tmp_path, world):
    def intrude(progress, steps):
        with pytest.raises(
            FolderInUse, match=rf"in use by process {os.getpid()}, .* another --out"
        ):
            train(tmp_path, world)

    assert train(tmp_path, world, watcher=Watcher(step=intrude)).status == "finished"
    assert not (tmp_path / ".lock").exists()


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


def test_a_torn_record_is_set_aside_and_the_run_goes_on(tmp_path, world, undisturbed, caplog):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    (tmp_path / "record.json").write_text('{"name": "second-mi')
    assert train(tmp_path, world).status == "finished"
    assert (tmp_path / "record.json.damaged").read_text() == '{"name": "second-mi'
    assert "is now called record.json.damaged" in caplog.text
    assert numbers(tmp_path) == numbers(undisturbed)


def test_a_record_of_a_newer_treefold_is_left_alone(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    (tmp_path / "record.json").write_text('{"version": 99}')
    with pytest.raises(UnreadableRecord, match="version 99"):
        train(tmp_path, world)
    assert (tmp_path / "record.json").read_text() == '{"version": 99}'


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


def test_evaluation_sizes_do_not_change_the_training(tmp_path, world, undisturbed):
    fewer = dataclasses.replace(small(), evaluation=Evaluation(sizes=(2,)))
    train(tmp_path, world, fewer)
    assert numbers(tmp_path)[0] == numbers(undisturbed)[0]


def test_a_run_without_progress_stops_when_its_patience_ends(tmp_path, world):
    stuck = small("second-minimum/oracle", "training.epochs=9", "training.patience=2")
    record = train(tmp_path, world, stuck)
    assert record.status == "finished"
    assert (record.epochs, record.metrics["best_epoch"]) == (3, 1)
    assert train(tmp_path, world, stuck) == record


def test_run_folders_hold_no_pickle(undisturbed):
    files = [path for path in Path(undisturbed).rglob("*") if path.is_file()]
    kinds = {path.suffix for path in files if path.parent.name != "tensorboard"}
    assert kinds == {".json", ".csv", ".safetensors"}


def test_a_run_that_is_to_be_evaluated_further_is_not_trained_again(
    tmp_path, world, undisturbed, monkeypatch
):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    before = numbers(tmp_path)
    more = small("second-minimum/binary-gru-assoc", "evaluation.balanced_sizes=4,64")
    steps = []
    watcher = Watcher(step=lambda progress, _: steps.append(progress.step))
    monkeypatch.setattr("treefold.experiments.run.commit", lambda: "a later one")
    record = train(tmp_path, world, more, watcher=watcher)
    assert record.commit != record.metrics["evaluation_commit"] == "a later one"
    assert steps == []
    assert record.status == "finished"
    assert record.recipe == as_json(more.recipe())
    assert record.metrics["balanced_accuracy"].keys() == {"4", "64"}
    rows, metrics, tensors = numbers(tmp_path)
    assert (rows, tensors) == (before[0], before[2])
    assert metrics["accuracy"] == before[1]["accuracy"]


def test_an_epoch_without_a_score_is_never_the_best_one(tmp_path, world, monkeypatch):
    scores = iter([float("nan"), 0.25, float("nan")])

    def validate(*_):
        return {"validation_loss": 1.0, "validation_accuracy": next(scores)}

    monkeypatch.setattr("treefold.experiments.set_routine.SetRoutine.validate", validate)
    train(tmp_path, world, small("second-minimum/max"))
    metrics = Record.read(tmp_path).metrics
    assert (metrics["best_epoch"], metrics["validation_accuracy"]) == (2, 0.25)


def test_of_equally_good_epochs_that_with_the_lowest_loss_is_the_best(tmp_path, world, monkeypatch):
    losses = iter([0.3, 0.1, 0.2])

    def validate(*_):
        return {"validation_loss": next(losses), "validation_accuracy": 1.0}

    monkeypatch.setattr("treefold.experiments.set_routine.SetRoutine.validate", validate)
    train(tmp_path, world, small("second-minimum/max"))
    metrics = Record.read(tmp_path).metrics
    assert (metrics["best_epoch"], metrics["validation_accuracy"]) == (2, 1.0)
