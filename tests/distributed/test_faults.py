"""Faults while a table is folded: a clear error or counted rows; nothing lost, half or twice."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import pyarrow.parquet as pq
from distributed.trained import events, fresh_fold

from treefold.distributed import fold_table
from treefold.distributed.merging import Merged
from treefold.distributed.table import write_result

PROGRAM = """
import os, resource, sys, tempfile
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from treefold import GatedSelection
from treefold.distributed import ModelFold, fold_table
torch.manual_seed(0)
states = torch.randn(256, 64)
fold = ModelFold(GatedSelection(64), states)
source, out, memory, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if limit:
    with tempfile.TemporaryDirectory() as folder:  # threads start, libraries are loaded
        pq.write_table(pa.table({"user": [1, 1], "x": [2, 3]}), f"{folder}/in.parquet")
        fold_table(fold, f"{folder}/in.parquet", f"{folder}/out.parquet", key="user", on="x")
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))
print("begun", flush=True)
try:
    fold_table(fold, source, out, key="user", on="x", memory=memory, overwrite=True)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(1)
print("done")
"""


@contextmanager
def started(source, out, memory=1 << 30, limit=0):
    arguments = [sys.executable, "-W", "ignore", "-c", PROGRAM, source, out, memory, limit]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([*map(str, arguments)], text=True, stdout=pipe, stderr=nothing) as done:
        yield done


def finished(*arguments, **options):
    with started(*arguments, **options) as process:
        said, _ = process.communicate(timeout=170)
    return process.returncode, said


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """400,000 rows of 100,000 keys: their states take 25 MB."""
    user, x = events(400_000, 100_000)
    path = tmp_path_factory.mktemp("table") / "in.parquet"
    pq.write_table(pa.table({"user": user.numpy(), "x": x.numpy()}), path)
    return path


@pytest.mark.long
@pytest.mark.parametrize("memory", [1 << 30, 100_000], ids=["in memory", "spilling"])
def test_killed_at_any_moment_it_leaves_the_old_result_or_the_new_one(table, tmp_path, memory):
    out = tmp_path / "out.parquet"
    with started(table, out, memory) as process:
        assert process.stdout.readline() == "begun\n"
        begin = time.monotonic()
        assert process.wait(170) == 0
        whole = time.monotonic() - begin
    new = pq.read_table(out)
    pq.write_table(pa.table({"old": [1]}), out)
    old, killed = out.read_bytes(), 0
    for moment in range(8):
        with started(table, out, memory) as process:
            assert process.stdout.readline() == "begun\n"
            time.sleep(whole * moment / 10)
            process.send_signal(signal.SIGKILL)
        killed += process.returncode == -signal.SIGKILL
        if out.read_bytes() != old:
            assert pq.read_table(out).equals(new)
            out.write_bytes(old)
        left = [name for name in names(tmp_path) if name != "out.parquet"]
        assert all(name.startswith(".") and name.endswith(".tmp") for name in left)
        assert len(left) <= 2  # and what was on disk meanwhile had no name
    assert killed >= 4
    assert finished(table, out, memory)[0] == 0
    assert names(tmp_path) == ["out.parquet"]  # what killed ones have left is gone
    assert pq.read_table(out).equals(new)


def test_interrupted_it_ends_and_leaves_nothing(table, tmp_path):
    with started(table, tmp_path / "out.parquet") as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    assert names(tmp_path) == []


# Where there is no memory at all, libraries below may end the process before Python can say so.
@pytest.mark.long
def test_out_of_memory_is_said_with_what_to_do_and_leaves_nothing(table, tmp_path):
    code, said = finished(table, tmp_path / "out.parquet", limit=20 << 20)
    assert code == 1, said
    assert "RuntimeError: out of memory, with a budget of 1,073,741,824 bytes" in said
    assert "give a smaller budget (memory=, --memory)" in said
    assert names(tmp_path) == []


FULL_DISK = """
import os, subprocess, sys
folder, source, program, memory = sys.argv[1:5]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
done = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", program, source, f"{folder}/out.parquet", memory, "0"],
    capture_output=True, text=True,
)
print(done.stdout.strip().splitlines()[-1])
print(os.listdir(folder))
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="there is no unshare here")
@pytest.mark.parametrize("memory", [1 << 30, 100_000], ids=["the result", "what does not fit"])
def test_a_full_disk_is_said_and_leaves_nothing(table, tmp_path, memory):
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", FULL_DISK]
    if subprocess.run(["unshare", "--map-root-user", "--mount", "true"]).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    arguments = [str(tmp_path), str(table), PROGRAM, str(memory)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    said, left = done.stdout.splitlines()
    where = f"{tmp_path}/out.parquet" if memory > 1 << 20 else f"{tmp_path}"
    assert said.startswith(f"StorageError: cannot write {where}: the disk is full; free some space")
    assert left == "[]"


def test_a_file_with_a_damaged_footer_is_named_before_any_work(fold, tmp_path):
    for name in ("1", "2", "3"):
        pq.write_table(pa.table({"user": [1], "x": [3]}), tmp_path / f"{name}.parquet")
    (tmp_path / "2.parquet").write_bytes(b"PAR1 and then something else")
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read as Parquet: ."):
        fold_table(fold, tmp_path, tmp_path / "out" / "out.parquet", key="user", on="x")
    assert not (tmp_path / "out").exists()


def test_a_file_with_damaged_pages_is_named_and_nothing_is_written(fold, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("1", "2", "3"):
        rows = {"user": list(range(999)), "x": [3] * 999}
        pq.write_table(pa.table(rows), tmp_path / "in" / f"{name}.parquet")
    path = tmp_path / "in" / "2.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)  # the footer is whole
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read as Parquet: ."):
        fold_table(fold, tmp_path / "in", tmp_path / "out.parquet", key="user", on="x")
    assert names(tmp_path) == ["in"]


def test_a_changed_byte_is_noticed_where_pages_have_checksums(fold, tmp_path):
    path = tmp_path / "in.parquet"
    table = pa.table({"user": [*range(5000)], "x": [3] * 5000})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, path, **options)
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"in\.parquet cannot be read as Parquet: .*CRC"):
        fold_table(fold, path, tmp_path / "out.parquet", key="user", on="x")
    assert names(tmp_path) == ["in.parquet"]


def test_a_key_of_another_type_in_the_second_file_is_refused_before_any_work(fold, tmp_path):
    pq.write_table(pa.table({"user": [1], "x": [3]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": ["1"], "x": [3]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"holds int64 in .*1.parquet and string in .*2.parquet"):
        fold_table(fold, tmp_path, tmp_path / "out" / "out.parquet", key="user", on="x")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"user": [1]}, "no column 'x'; it has user"),
        ({"user": [1], "x": ["a"]}, "holds string; expected integers from 0 to 255, which"),
        ({"user": [1], "x": [0.5]}, "holds double; expected"),
    ],
)
def test_tables_that_cannot_be_folded_are_refused_before_any_work(fold, tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=message):
        fold_table(fold, tmp_path / "in.parquet", tmp_path / "o" / "o.parquet", key="user", on="x")
    assert names(tmp_path) == ["in.parquet"]


@pytest.mark.parametrize("name", ["in.parquet", "out.bad.parquet"])
@pytest.mark.parametrize("folder", ["", "other/.."])
def test_a_source_is_never_overwritten(fold, tmp_path, name, folder):
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"user": [1, 1], "x": [3, 4]}), tmp_path / name)
    before = (tmp_path / name).read_bytes()
    out = tmp_path / folder / ("in.parquet" if name == "in.parquet" else "out.parquet")
    with pytest.raises(ValueError, match=f"{name} would be written, and it is one of the files"):
        fold_table(fold, tmp_path / name, out, key="user", on="x", overwrite=True)
    assert (tmp_path / name).read_bytes() == before
    assert names(tmp_path) == sorted([name, "other"])


@pytest.mark.parametrize("name", ["out.parquet", "out.bad.parquet"])
def test_what_is_there_is_overwritten_only_on_request(fold, tmp_path, name):
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"user": [1, 1], "x": [3, 4]}), source)
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(ValueError, match=f"{name} exists; write elsewhere, or give overwrite=True"):
        fold_table(fold, source, out, key="user", on="x")
    assert (tmp_path / name).read_bytes() == b"old"
    fold_table(fold, source, out, key="user", on="x", overwrite=True)
    assert pq.read_table(out)["num_rows"].to_pylist() == [2]
    assert names(tmp_path) == ["in.parquet", "out.parquet"]  # no bad rows, and none of earlier


def some(num_rows, num_bad):
    keys = {"key": [1], "state": [[0.5]], "num_rows": [num_rows], "num_bad": [num_bad]}
    bad = pa.table({"key": [1], "file": ["a"], "row": [3], "problem": ["null"]})
    return [Merged(pa.table(keys), bad.slice(0, num_bad))]


def test_a_result_that_lacks_rows_is_not_written(tmp_path):
    out = tmp_path / "out.parquet"
    with pytest.raises(RuntimeError, match="3 rows were folded or found bad, but the table has 4"):
        write_result(some(2, 1), "user", 4, out)
    assert names(tmp_path) == []
    assert write_result(some(2, 1), "user", 3, out).num_rows == 2
    assert names(tmp_path) == ["out.bad.parquet", "out.parquet"]


def test_a_range_that_fails_leaves_the_old_result_and_nothing_else(tmp_path):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"old")

    def failing():
        yield some(1, 1)[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="disk is full"):
        write_result(failing(), "user", 9, out)
    assert out.read_bytes() == b"old"
    assert names(tmp_path) == ["out.parquet"]


def test_threads_are_as_many_as_before_once_it_has_failed(fold, tmp_path):
    torch.set_num_threads(2)
    test_a_file_with_damaged_pages_is_named_and_nothing_is_written(fold, tmp_path)
    assert torch.get_num_threads() == 2
