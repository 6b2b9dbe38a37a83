"""Tables folded on Ray: every key gets its state, every bad row is named, workers may die."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import permutations

import pytest
import torch

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

import psutil
import pyarrow.parquet as pq
from distributed.ray_warnings import ignored
from distributed.trained import CHANNELS, events, run_folder

from treefold import Groups
from treefold.distributed import MonoidAggregate, fold_table
from treefold.distributed.parquet import LOCAL_SETTINGS
from treefold.lab.cli.folding import fold_file
from treefold.lab.experiments import load_fold

pytestmark = ignored


@pytest.fixture(scope="module")
def address():
    os.environ.update(LOCAL_SETTINGS)
    info = ray.init(
        num_cpus=2,
        object_store_memory=150 * 2**20,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield info.address_info["gcs_address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def fold(run):
    return load_fold(run)


def by_key(table, column="state"):
    return dict(zip(table["user"].to_pylist(), table[column].to_pylist(), strict=True))


def alone(fold, user, x):
    """The states of all users, folded in one piece."""
    return fold.fold(x, Groups.from_index(user))


@pytest.mark.usefixtures("address")
def test_a_model_aggregates_a_dataset_of_integers_and_of_states(run, fold):
    user, x = events(300, 5)
    states = pa.array(fold.states(x).tolist(), pa.list_(pa.float32()))
    table = pa.table({"user": user.numpy(), "x": x.numpy(), "s": states})
    found = (
        ray.data.from_arrow(table)
        .groupby("user", num_partitions=2)
        .aggregate(MonoidAggregate(load_fold(run), on="x"), MonoidAggregate(fold, on="s"))
        .take_all()
    )
    assert len(found) == 5
    expected = alone(fold, user, x)
    for row in found:  # one block: one balanced tree per user
        torch.testing.assert_close(torch.tensor(row["fold(x)"]), expected[row["user"]])
        torch.testing.assert_close(torch.tensor(row["fold(s)"]), expected[row["user"]])


def test_a_file_of_many_row_groups_is_folded_by_workers_and_merged(address, run, fold, tmp_path):
    user, x = events(2000, 7)
    pq.write_table(
        pa.table({"user": user.numpy(), "x": x.numpy()}),
        tmp_path / "in.parquet",
        row_group_size=500,
    )
    out = tmp_path / "out.parquet"
    command = [run, "in.parquet", "--key", "user", "--on", "x", "--out", "out.parquet"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "fold", *map(str, command),
         "--decode", "--address", address],
        capture_output=True, text=True, timeout=170,
        cwd=tmp_path,  # not that of the workers
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2,000 rows of 7 keys folded" in done.stdout
    assert "over 7 keys with two or more rows (1,792 rows)" in done.stdout  # 256 of each
    assert "of answers change with the tree" in done.stdout
    table = pq.read_table(out)
    assert table.schema.field("state").type == pa.list_(pa.float32(), CHANNELS)
    assert sum(table["num_rows"].to_pylist()) == 2000
    states = {key: torch.tensor(state) for key, state in by_key(table).items()}
    assert_merged_from(fold, user.split(500), x.split(500), states)
    answers = fold.answers(torch.stack([states[key] for key in range(7)])).tolist()
    assert by_key(table, "answer") == dict(enumerate(answers))


@torch.no_grad()
def assert_merged_from(fold, users, xs, states):
    """Four partial states meet as ((1 2) (3 4)) or in another order: close, but not more.

    All orders of merging are tried, and one of them must be the one that was taken.
    """
    parts = [alone(fold, user, x) for user, x in zip(users, xs, strict=True)]
    op = fold.operator
    for key, state in states.items():
        a, b, c, d = (part[key : key + 1] for part in parts)
        merged = [
            op(op(p, q), op(r, s)) if shape else op(op(op(p, q), r), s)
            for p, q, r, s in permutations([a, b, c, d])
            for shape in (True, False)
        ]
        distances = [float((one - state).abs().max()) for one in merged]
        assert min(distances) < 1e-5


@pytest.mark.usefixtures("address")
def test_bad_rows_are_counted_and_named_with_their_position(fold, tmp_path):
    wide = [0.5] * CHANNELS
    rows = [wide, None, [0.5], [float("nan"), *wide[1:]], wide, [None, *wide[1:]], wide]
    users = ["a", "a", "b", "b", "a", "c", None]
    (tmp_path / "in").mkdir()
    table = pa.table({"user": users, "x": pa.array(rows, pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "in" / "1.parquet", row_group_size=3)
    pq.write_table(table.slice(0, 1), tmp_path / "in" / "2.parquet")
    out = tmp_path / "out.parquet"
    summary = fold_table(fold, tmp_path / "in", out, key="user", on="x", decode=True)
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (4, 3, 5)
    named = [(line["row"], line["user"], line["problem"]) for line in summary.bad]
    assert named == [
        (1, "a", "null"),
        (2, "b", f"width 1, expected {CHANNELS}"),
        (3, "b", "nan at place 0, expected a number"),
        (5, "c", "nan at place 0, expected a number"),
        (6, None, "null key"),
    ]
    assert all(line["file"].endswith("1.parquet") for line in summary.bad)
    result = pq.read_table(out)
    assert by_key(result, "num_bad") == {"a": 1, "b": 2, "c": 1, None: 1}
    assert by_key(result, "num_rows") == {"a": 3, "b": 0, "c": 0, None: 0}
    assert by_key(result)["b"] is None
    assert by_key(result, "answer")["b"] is None
    assert pq.read_table(tmp_path / "out.bad.parquet").num_rows == 5


@pytest.mark.usefixtures("address")
def test_files_may_be_named_by_strings(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"user": [1, 2, 1], "x": [3, 4, 5]}), "e.parquet")
    summary = fold_table(load_fold(str(run)), "e.parquet", "u.parquet", key="user", on="x")
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (2, 3, 0)
    assert by_key(pq.read_table("u.parquet"), "num_rows") == {1: 2, 2: 1}


@pytest.mark.usefixtures("address")
def test_what_a_dead_worker_was_doing_is_done_again(fold, tmp_path):
    user, x = events(400_000, 50)
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"user": user.numpy(), "x": x.numpy()}), source, row_group_size=20_000)
    killed = []
    over = threading.Event()

    def kill_one():
        while not over.is_set() and not killed:
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.cmdline()[:1] == ["ray::MapBatches(PartialFold)"]:
                        process.send_signal(signal.SIGKILL)
                        killed.append(process.pid)
                        break
                except psutil.Error:
                    continue
            time.sleep(0.01)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        summary = fold_table(fold, source, tmp_path / "out.parquet", key="user", on="x")
    finally:
        over.set()
        killer.join()
    assert killed, "no worker was found at work"
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (50, 400_000, 0)
    assert float(summary.stability.distances.largest.max()) > 0
    counts = by_key(pq.read_table(tmp_path / "out.parquet"), "num_rows")
    assert counts == dict(enumerate(torch.bincount(user).tolist()))


@pytest.mark.usefixtures("address")
def test_what_fails_on_a_worker_is_said_in_a_line_and_leaves_nothing(fold, tmp_path, monkeypatch):
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"user": list(range(999)), "x": [3] * 999}), source)
    data = bytearray(source.read_bytes())
    data[4:200] = bytes(196)  # pages are damaged, and the footer is not
    source.write_bytes(data)
    nothing = pa.table({"user": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    monkeypatch.setattr("treefold.distributed.parquet.sample_rows", lambda *_: nothing)
    with pytest.raises(RuntimeError, match=r"a worker failed: .") as caught:
        fold_table(fold, source, tmp_path / "out.parquet", key="user", on="x")
    assert "Traceback" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.usefixtures("address")
def test_null_keys_are_bad_rows_and_split_no_other_key(fold, tmp_path, monkeypatch):
    context = ray.data.DataContext.get_current()  # blocks stay apart, as on different machines
    monkeypatch.setattr(context, "shuffle_input_batch_bytes", 0, raising=False)
    user = [1, None, 3, None, 5, 6, None, 8, 1, 3, None, 5]
    table = pa.table({"user": pa.array(user, pa.int32()), "x": [9] * len(user)})
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    with pq.ParquetWriter(source, table.schema) as writer:  # groups of nulls, of others, of both
        for first, last in [(0, 1), (1, 2), (2, 4), (4, 6), (6, 8), (8, 9), (9, 12)]:
            writer.write_table(table.slice(first, last - first))
    summary = fold_table(fold, source, out, key="user", on="x")
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (6, 8, 4)
    result = pq.read_table(out)
    assert result.schema.names == ["user", "state", "num_rows", "num_bad"]
    assert result.schema.field("user").type == pa.int32()
    assert sorted(result["num_rows"].to_pylist()) == [0, 1, 1, 2, 2, 2]
    assert by_key(result, "num_rows") == {None: 0, 1: 2, 3: 2, 5: 2, 6: 1, 8: 1}
    bad = pq.read_table(tmp_path / "out.bad.parquet")
    assert bad.schema.field("user").type == pa.int32()
    assert bad["row"].to_pylist() == [1, 3, 6, 10]


@pytest.mark.usefixtures("address")
def test_a_table_of_null_keys_or_null_values_has_only_bad_rows(fold, tmp_path):
    out = tmp_path / "out.parquet"
    for name, keys, column in [("keys", pa.nulls(2), [1, 2]), ("x", [1, 1], pa.nulls(2))]:
        source = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"user": keys, "x": column}), source, row_group_size=1)
        summary = fold_table(fold, source, out, key="user", on="x", decode=True)
        assert (summary.num_keys, summary.num_rows, summary.num_bad) == (1, 0, 2)
        (row,) = pq.read_table(out).to_pylist()
        assert (row["state"], row["answer"], row["num_bad"]) == (None, None, 2)


@pytest.mark.usefixtures("address")
def test_categories_are_keys_and_bad_rows_beyond_a_hundred_of_a_key_are_counted(
    fold, run, tmp_path, capsys
):
    users = pa.array(["a", "b"] * 150).dictionary_encode()
    x = [300 if row % 2 else 3 for row in range(300)]  # those of b are bad
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"user": users, "x": x}), source, row_group_size=100)
    fold_file(run, source, "user", "x", out, decode=False, address=None)
    said = capsys.readouterr().out
    assert "150 rows of 2 keys folded" in said
    assert "150 rows could not be folded" in said
    assert "50 of them are not in that file: it names at most 100 of a key" in said
    assert by_key(pq.read_table(out), "num_bad") == {"a": 0, "b": 150}
    assert pq.read_table(tmp_path / "out.bad.parquet").num_rows == 100
