"""A run resumes after any interruption as if nothing had been."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from lab.experiments.small_runs import SMALL, Crash, numbers, train

from treefold.lab.experiments.trainer import Trainer, Watcher
from treefold.lab.runs import (
    MetricsLog,
    Record,
    UnreadableRecord,
)
from treefold.lab.runs.signals import Stopped

# Interrupted


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


def test_a_killed_process_changes_no_number(tmp_path, undisturbed):
    sets = [part for item in SMALL for part in ("--set", item)]
    command = [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "train",
               "second-minimum/binary-gru-assoc", "--preset", "smoke", "--seed", "1",
               "--threads", "1", "--out", str(tmp_path), *sets]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not list(tmp_path.rglob("last-*.json")) and time.monotonic() < deadline:
        time.sleep(0.002)
    child.kill()
    child.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (folder,) = [path.parent for path in tmp_path.rglob("record.json")]
    assert numbers(folder) == numbers(undisturbed)


# From files that are damaged, or of another version or machine


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


def test_a_record_from_before_machines_were_kept_is_gone_on_with(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    entries = json.loads((tmp_path / "record.json").read_text())
    del entries["machine"]
    (tmp_path / "record.json").write_text(json.dumps(entries))
    assert Record.read(tmp_path).machine == {}
    assert train(tmp_path, world).status == "finished"


def test_a_record_whose_recipe_holds_what_never_decided_anything_is_no_other_run(
    tmp_path, world, undisturbed
):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    entries = json.loads((tmp_path / "record.json").read_text())
    entries["recipe"]["task"]["max_evaluation_size"] = 200
    (tmp_path / "record.json").write_text(json.dumps(entries))

    def never(shown):
        raise AssertionError("it was evaluated again")

    assert train(tmp_path, world, watcher=Watcher(evaluated=never)) == Record.read(undisturbed)


def test_a_run_goes_on_with_another_number_of_processes_only_if_told(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    record = Record.read(tmp_path)
    machine = {**record.machine, "processes": 2}
    dataclasses.replace(record, machine=machine).write(tmp_path)
    with pytest.raises(ValueError, match=r"begun with processes 2, not processes 1.*--processes 2"):
        train(tmp_path, world)
    found = train(tmp_path, world, other_processes=True)
    assert found.machine["processes"] == 1
    assert "resumed after 3 epochs with 1 processes instead of 2" in found.departures


def test_another_number_of_threads_is_noted(tmp_path, world, undisturbed):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    record = Record.read(tmp_path)
    other = {**record.machine, "threads": 77}
    dataclasses.replace(record, machine=other).write(tmp_path)
    assert train(tmp_path, world).departures == record.departures  # it is finished
    dataclasses.replace(record, machine=other, status="stopped").write(tmp_path)
    found, threads = train(tmp_path, world), record.machine["threads"]
    assert f"resumed after 3 epochs with {threads} threads instead of 77" in found.departures


def test_a_crash_before_the_first_save_leaves_no_epoch_in_the_log(
    tmp_path, world, undisturbed, monkeypatch
):
    def crash(trainer):
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save", crash)
        with pytest.raises(Crash):
            train(tmp_path, world)
    assert len(MetricsLog.read(tmp_path)) == 1
    assert train(tmp_path, world).epochs == 3
    assert numbers(tmp_path) == numbers(undisturbed)
