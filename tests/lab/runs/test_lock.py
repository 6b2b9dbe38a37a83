"""One process at a time works in a folder, and a killed one leaves no lock."""

import os
import signal
import subprocess
import sys

import pytest

from treefold.atomic import StorageError
from treefold.lab.runs import FolderInUse, locked

HOLD = """
import sys, pathlib, time
from treefold.lab.runs import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_told_which_one_is_at_work_and_a_killed_one_leaves_no_lock(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "locked\n"
        with pytest.raises(FolderInUse, match=f"in use by process {child.pid}"), locked(tmp_path):
            pass
        child.send_signal(signal.SIGKILL)
    assert (tmp_path / ".lock").exists()  # its file is left, but no process holds it
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
    assert os.listdir(tmp_path) == []


def test_the_lock_goes_whatever_happens_inside(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    with locked(tmp_path):
        pass


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/\.lock"), locked(tmp_path / "nowhere"):
        pass
