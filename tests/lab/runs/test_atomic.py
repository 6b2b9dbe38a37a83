import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from lab.runs.disk import Killed, contents, count_calls, failing_disk, os_error

import treefold
from treefold.atomic import (
    StorageError,
    append_durably,
    check_writable,
    remove_leftovers,
    replaced_atomically,
    write_atomically,
)

SOURCE = Path(treefold.__file__).parents[1]


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "record.json"
    target.write_bytes(b"old content")
    return target


def test_the_file_holds_the_new_bytes_and_nothing_else_is_left(path):
    write_atomically(path, b"new")
    assert contents(path.parent) == {"record.json": b"new"}
    write_atomically(path.with_name("other"), b"")
    assert contents(path.parent) == {"record.json": b"new", "other": b""}


def test_bytes_are_synced_before_the_rename_and_the_name_after_it(path):
    with failing_disk(0, None) as calls:
        write_atomically(path, b"new")
    assert calls[:6] == ["open", "write", "fsync", "replace", "unlink", "open"]
    assert calls[6:] == ["fsync"]


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    write_atomically(path, b"0123456789")
    assert path.read_bytes() == b"0123456789"


def test_others_may_read_what_the_umask_lets_them(path):
    before = os.umask(0o027)
    try:
        write_atomically(path, b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("at", range(1, 8))
def test_an_error_at_any_call_leaves_the_old_file_or_the_new_one_and_no_other(path, at):
    assert count_calls(lambda: write_atomically(path.with_name("other"), b"new")) == 7
    path.with_name("other").unlink()
    with failing_disk(at, os_error("ENOSPC")):
        if at == 5:  # removing what is already renamed
            write_atomically(path, b"new")
        else:
            with pytest.raises(StorageError, match="disk is full"):
                write_atomically(path, b"new")
    assert contents(path.parent) == {"record.json": b"old content" if at <= 4 else b"new"}


@pytest.mark.parametrize("at", range(1, 8))
def test_a_kill_at_any_call_leaves_the_old_file_or_the_new_one(path, at):
    with failing_disk(at, Killed(), for_good=True), pytest.raises(Killed):
        write_atomically(path, b"new")
    assert path.read_bytes() == (b"old content" if at <= 4 else b"new")
    remove_leftovers(path.parent)
    assert list(contents(path.parent)) == ["record.json"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ENOSPC", "the disk is full; free some space"),
        ("EDQUOT", "quota is used up; free some space"),
        ("EROFS", "the disk is read-only; choose another folder"),
        ("EACCES", "permission denied; make the folder writable"),
        ("EPERM", "permission denied; make the folder writable"),
        ("EIO", "the disk reports an error; check the disk"),
        ("ELOOP", "Too many levels of symbolic links; try another folder"),
    ],
)
def test_an_error_is_one_line_with_the_file_the_reason_and_a_remedy(path, error, words):
    with failing_disk(2, os_error(error)), pytest.raises(StorageError) as raised:
        write_atomically(path, b"new")
    assert str(raised.value).startswith(f"cannot write {path}: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.errno == os_error(error).errno
    # Errors of a process pool travel pickled.
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_missing_folder_and_a_folder_in_the_way_are_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/file: the file or its folder is missing"):
        write_atomically(tmp_path / "nowhere" / "file", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder: a folder stands in its place"):
        write_atomically(tmp_path / "folder", b"")


def test_a_disk_that_cannot_sync_folders_will_do(path):
    with failing_disk(7, os_error("EINVAL")):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_appending_adds_all_or_nothing(path):
    append_durably(path, b", more")
    for at in (1, 2, 3):
        with (
            failing_disk(at, os_error("ENOSPC")),
            pytest.raises(StorageError, match="disk is full"),
        ):
            append_durably(path, b", lost")
    append_durably(path, b", most")
    assert path.read_bytes() == b"old content, more, most"


def test_appending_syncs(path):
    with failing_disk(0, None) as calls:
        append_durably(path, b"!")
    assert calls == ["open", "write", "fsync"]


def test_a_writable_folder_is_made_and_left_empty(tmp_path):
    check_writable(tmp_path / "runs" / "first")
    assert contents(tmp_path / "runs" / "first") == {}


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, at):
    with failing_disk(at, os_error("EROFS")), pytest.raises(StorageError, match="read-only"):
        check_writable(tmp_path)
    assert contents(tmp_path) == {}


def test_a_file_in_place_of_the_folder_is_named(path):
    for folder in (path, path / "below"):
        with pytest.raises(StorageError, match="a file stands where a folder should be"):
            check_writable(folder)


def test_only_leftovers_of_dead_processes_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        f".record.json.{dead.pid}-0123abcd.tmp": True,
        f".record.json.{os.getpid()}-0123abcd.tmp": True,
        f".last-000001.json.{10**30}-0123abcd.tmp": True,  # no such process can be
        f".record.json.{os.getppid()}-0123abcd.tmp": False,
        f"record.json.{dead.pid}-0123abcd.tmp": False,
        f".record.json.{dead.pid}.tmp": False,
        ".editor.tmp": False,
        "record.json": False,
    }
    for name in names:
        (tmp_path / name).touch()
    removed = remove_leftovers(tmp_path)
    assert {path.name for path in removed} == {name for name, goes in names.items() if goes}
    assert set(contents(tmp_path)) == {name for name, goes in names.items() if not goes}
    assert remove_leftovers(tmp_path / "nowhere") == []


ON_A_TINY_DISK = """
import subprocess, sys
from pathlib import Path
from treefold.lab.runs import StorageError, check_writable, write_atomically

def failure(action, *arguments):
    try:
        action(*arguments)
    except StorageError as error:
        return str(error)

folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=True)
check_writable(folder)
write_atomically(folder / "file", b"x" * 40_000)
print(failure(write_atomically, folder / "file", b"y" * 400_000))
print(failure(check_writable, folder, 400_000))
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
print(failure(write_atomically, folder / "file", b"z"))
print(failure(check_writable, folder))
print([(path.name, path.read_bytes() == b"x" * 40_000) for path in folder.iterdir()])
"""


def test_a_real_disk_that_is_full_or_read_only_keeps_the_old_file(tmp_path):
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*own_mounts, "true"]).returncode:
        pytest.skip("mounting a disk of one's own needs user namespaces")
    answer = subprocess.run(
        [*own_mounts, sys.executable, "-c", ON_A_TINY_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        f"cannot write {tmp_path}/file: the disk is full; free some space and try again",
        f"cannot write {tmp_path}: the disk is full; free some space and try again",
        f"cannot write {tmp_path}/file: the disk is read-only; choose another folder",
        f"cannot write {tmp_path}: the disk is read-only; choose another folder",
        "[('file', True)]",
    ]


def test_a_large_file_is_replaced_when_it_is_whole_and_not_before(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with replaced_atomically(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"

    def fail_half_way():
        with replaced_atomically(path) as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    with pytest.raises(StorageError, match="cannot write"), replaced_atomically(path):
        raise OSError(28, "No space left on device")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["table"]
