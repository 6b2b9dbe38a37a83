"""Disks that are full and processes that are killed cost no earlier checkpoint."""

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints.stored import checkpoint, step_of, store_of_two
from lab.runs.disk import Killed, contents, failing_disk, os_error

import treefold
from treefold.atomic import StorageError, remove_leftovers
from treefold.checkpoints import CheckpointStore

SOURCE = Path(treefold.__file__).parents[1]


CALLS_OF_A_FILE = ["open", "write", "fsync", "replace", "unlink", "open", "fsync"]


CALLS_OF_A_SAVE = [*CALLS_OF_A_FILE, *CALLS_OF_A_FILE, "unlink", "unlink"]


def test_the_tensors_are_on_the_disk_before_the_json_and_old_ones_go_last(saved, tmp_path):
    with failing_disk(0, None) as calls:
        saved.save(checkpoint(3))
    assert calls == CALLS_OF_A_SAVE


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS"])
def test_a_disk_that_fails_at_any_call_costs_no_earlier_checkpoint(tmp_path, error):
    for at, call in enumerate(CALLS_OF_A_SAVE, start=1):
        store = store_of_two(tmp_path / str(at))
        before = contents(store.folder)
        with failing_disk(at, os_error(error)):
            if call == "unlink":
                store.save(checkpoint(3))
            else:
                with pytest.raises(StorageError, match="last-000003") as raised:
                    store.save(checkpoint(3))
                assert raised.value.errno == getattr(errno, error)
                assert contents(store.folder) == before
        assert step_of(store.load()) == (3 if call == "unlink" else 2)
        store.save(checkpoint(4))
        assert step_of(store.load()) == 4


def test_a_kill_at_any_call_leaves_the_old_checkpoint_or_the_new_one(tmp_path):
    survivors = []
    for at in range(1, len(CALLS_OF_A_SAVE) + 1):
        store = store_of_two(tmp_path / str(at))
        with failing_disk(at, Killed(), for_good=True), pytest.raises(Killed):
            store.save(checkpoint(3))
        files = contents(store.folder)
        assert all(name.replace("json", "safetensors") in files for name in files if name[0] != ".")
        resumed = CheckpointStore(store.folder)
        survivors.append(step_of(resumed.load()))
        remove_leftovers(store.folder)
        resumed.save(checkpoint(4))
        assert step_of(resumed.load()) == 4
        assert len(contents(store.folder)) == 4  # nothing of the killed save is left
    assert survivors == [2] * 11 + [3] * 5  # renaming the .json, the 11th call, is what counts


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/last-000001.*folder is missing"):
        CheckpointStore(tmp_path / "nowhere").save(checkpoint(1))


KILLED_WHILE_SAVING = """
import os, random, resource, signal, sys, time
from pathlib import Path
import torch
from treefold.atomic import StorageError, remove_leftovers
from treefold import checkpoints as checkpoint_module
from treefold.lab.runs import state as state_module
from treefold.checkpoints import Checkpoint, CheckpointStore

folder, moments = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
torch.set_num_threads(1)

def checkpoint(step, width=2000):
    tensors = {f"{n}": torch.full((width,), step, dtype=torch.float64) for n in range(4)}
    return Checkpoint(tensors, {"step": step, "again": [step] * 50})

def step_found():
    found = CheckpointStore(folder).load()
    step = found.state["step"]
    assert found.state["again"] == [step] * 50
    assert len(found.tensors) == 4
    assert all(bool((tensor == step).all()) for tensor in found.tensors.values())
    return step

CheckpointStore(folder).save(checkpoint(0))
steps = [0]
for _ in range(20):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        store = CheckpointStore(folder)
        while True:
            steps[-1] += 1
            store.save(checkpoint(steps[-1]))
            os.write(writing, b"saved")
    os.read(reading, 1)  # however slow the machine, there is progress
    time.sleep(moments.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    steps.append(step_found())
    remove_leftovers(folder)

resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    CheckpointStore(folder).save(checkpoint(-1, width=20_000))
except StorageError as error:
    print(error)
print(*steps, step_found())
"""


def test_twenty_kills_while_saving_and_a_file_too_large_lose_no_checkpoint(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path), str(random.randrange(2**32))],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert "; using last-" not in answer.stderr  # none was even damaged
    error, steps = answer.stdout.splitlines()
    assert "safetensors: it is larger than files may be here" in error
    steps = [int(step) for step in steps.split()]
    assert len(steps) == 22
    assert steps[:21] == sorted(set(steps))  # every round began where the last one ended
    assert steps[21] == steps[20]
