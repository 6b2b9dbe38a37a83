"""Tables folded on Ray: the answers of one machine; workers and nodes may die."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import psutil
import pyarrow.parquet as pq
from distributed.ray_warnings import ignored
from distributed.trained import events, run_folder

from treefold import Groups
from treefold.distributed import MonoidAggregate, fold_table
from treefold.distributed.cluster import LOCAL_SETTINGS
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


def write(path, num_rows, num_users, row_group_size):
    user, x = events(num_rows, num_users)
    x = torch.where(torch.arange(num_rows) % 1001 == 1000, 256, x)  # some are bad
    table = pa.table({"user": pa.array([f"user {n}" for n in user.tolist()]), "x": x.numpy()})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def by_user(path):
    return pq.read_table(path).sort_by("user")


def assert_same(one, other):
    one, other = by_user(one), by_user(other)
    for column in set(one.column_names) - {"state"}:
        assert one[column].equals(other[column]), column
    states = (torch.tensor(table["state"].to_pylist()) for table in (one, other))
    torch.testing.assert_close(*states)


@pytest.mark.usefixtures("address")
def test_a_model_aggregates_a_dataset_of_integers_and_of_states(run, fold):
    user, x = events(300, 5)
    states = pa.array(fold.states(x).tolist(), pa.list_(pa.float32()))
    table = pa.table({"user": user.numpy(), "x": x.numpy(), "s": states})
    aggregates = MonoidAggregate(load_fold(run), on="x"), MonoidAggregate(fold, on="s", states=True)
    grouped = ray.data.from_arrow(table).groupby("user", num_partitions=2)
    found = grouped.aggregate(*aggregates).take_all()
    assert len(found) == 5
    expected = fold.fold(x, Groups.from_index(user))
    for row in found:  # one block: one balanced tree per user
        torch.testing.assert_close(torch.tensor(row["fold(x)"]), expected[row["user"]])
        torch.testing.assert_close(torch.tensor(row["fold(s)"]), expected[row["user"]])


def test_a_cluster_gives_the_answers_of_one_machine(address, run, fold, tmp_path):
    source = write(tmp_path / "in.parquet", 300_000, 700, row_group_size=50_000)
    here = tmp_path / "here.parquet"
    summary = fold_table(fold, source, here, key="user", on="x", decode=True)
    command = [run, "in.parquet", "--key", "user", "--on", "x", "--out", "out.parquet"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "fold", *map(str, command),
         "--decode", "--address", address],
        capture_output=True, text=True, timeout=300,
        cwd=tmp_path,  # not that of the workers
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "299,701 rows of 700 keys folded" in done.stdout
    assert f"merge order: {summary.stability}\n" in done.stdout
    assert "299 rows could not be folded" in done.stdout
    assert_same(here, tmp_path / "out.parquet")
    listed = [pq.read_table(tmp_path / f"{name}.bad.parquet") for name in ("here", "out")]
    one, other = (table.sort_by("row").to_pylist() for table in listed)
    assert one == other


def kill_one(over, killed):
    while not over.is_set() and not killed:
        for process in psutil.Process().children(recursive=True):
            try:
                if "_fold_piece" in process.cmdline()[0]:
                    process.send_signal(signal.SIGKILL)
                    killed.append(process.pid)
                    break
            except (psutil.Error, IndexError):
                continue
        time.sleep(0.01)


def test_what_a_dead_worker_was_doing_is_done_again(address, fold, tmp_path, monkeypatch):
    monkeypatch.setattr("treefold.distributed.cluster.ROWS_PER_TASK", 65_536)
    source = write(tmp_path / "in.parquet", 400_000, 50, row_group_size=20_000)
    killed, over = [], threading.Event()
    killer = threading.Thread(target=kill_one, args=(over, killed))
    killer.start()
    out, here = tmp_path / "out.parquet", tmp_path / "here.parquet"
    try:
        summary = fold_table(fold, source, out, key="user", on="x", address=address)
    finally:
        over.set()
        killer.join()
    assert killed, "no worker was found at work"
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (50, 399_601, 399)
    fold_table(fold, source, here, key="user", on="x")
    assert_same(here, out)


def test_what_fails_on_a_worker_is_said_in_a_line_and_leaves_nothing(address, fold, tmp_path):
    source = tmp_path / "in.parquet"
    pq.write_table(pa.table({"user": list(range(999)), "x": [3] * 999}), source)
    data = bytearray(source.read_bytes())
    data[4:200] = bytes(196)  # pages are damaged, and the footer is not
    source.write_bytes(data)
    with pytest.raises(RuntimeError, match=r"a worker failed: .*cannot be read as Pa") as caught:
        fold_table(fold, source, tmp_path / "out.parquet", key="user", on="x", address=address)
    assert "Traceback" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


TWO_NODES = """
import json, sys
import ray
from ray.cluster_utils import Cluster
from treefold.distributed import fold_table
from treefold.lab.experiments import load_fold

run, source, out = sys.argv[1:]
here = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 150 << 20}
cluster = Cluster(initialize_head=True, head_node_args={**here, "include_dashboard": False})
node, seen = cluster.add_node(**here), []

def watch(stage, rows, total):
    if not seen:  # one node of two has results that nobody has asked for yet
        seen.append(len(ray.nodes()))
        cluster.remove_node(node, allow_graceful=False)

found = fold_table(
    load_fold(run), source, out, key="user", on="x", address=cluster.address, watch=watch
)
alive = sum(node["Alive"] for node in ray.nodes()) if ray.is_initialized() else 1
print(json.dumps([seen, alive, found.num_keys, found.num_rows, found.num_bad]))
cluster.shutdown()
"""


@pytest.mark.long
def test_a_node_that_dies_is_survived(run, fold, tmp_path):
    source = write(tmp_path / "in.parquet", 2_500_000, 5_000, row_group_size=100_000)
    out, here = tmp_path / "out.parquet", tmp_path / "here.parquet"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TWO_NODES, str(run), str(source), str(out)],
        capture_output=True, text=True, timeout=500,
        env={**os.environ, **LOCAL_SETTINGS, "RAY_AUTH_MODE": "disabled"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    counts = [5_000, 2_497_503, 2_497]
    assert json.loads(done.stdout.splitlines()[-1]) == [[2], 1, *counts]
    fold_table(fold, source, here, key="user", on="x")
    assert_same(here, out)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.long
def test_a_cluster_that_wants_a_token_is_said_to_with_the_settings_to_use(run, fold, tmp_path):
    source = write(tmp_path / "in.parquet", 2_000, 5, row_group_size=1_000)
    address, home = f"127.0.0.1:{free_port()}", {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    plain = (
        {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | LOCAL_SETTINGS | home
    )
    token = plain | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    where = ["--node-ip-address=127.0.0.1", f"--port={address.split(':')[1]}", "--num-cpus=1"]
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *where]
    fold_it = [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "fold", run, source]
    fold_it += ["--key", "user", "--on", "x", "--out", tmp_path / "o.parquet", "--address", address]
    with open(tmp_path / "log", "w") as log, subprocess.Popen(
        [*start, "--include-dashboard=false"], env=token, stdout=log, stderr=log,
        start_new_session=True,
    ) as head:  # fmt: skip
        try:
            run_it = {"capture_output": True, "text": True, "timeout": 280}
            for _ in range(60):  # until it is there
                done = subprocess.run([*map(str, fold_it)], env=token, **run_it)
                if done.returncode == 0:
                    break
                time.sleep(1)
            assert done.returncode == 0, done.stderr
            refused = subprocess.run([*map(str, fold_it), "--overwrite"], env=plain, **run_it)
        finally:
            os.killpg(head.pid, signal.SIGKILL)
    assert refused.returncode == 3, refused.stderr
    said = refused.stderr.strip().splitlines()[-1]
    assert said.startswith(f"treefold: cannot connect to the Ray cluster at {address}: ")
    assert "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in said
