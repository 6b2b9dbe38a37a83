"""Fold a table of events by user with a trained model, on Ray: on all cores, or on a cluster.

The model has learned second minima; each user's answer is that for all of their events together.
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from treefold.experiments.overrides import override
from treefold.experiments.run import run
from treefold.experiments.set_experiments import find_experiment
from treefold.tables import fold_table, on_ray
from treefold.training.world import World


def train(folder: Path, epochs: int) -> Path:
    experiment = find_experiment("second-minimum/binary-gru", "smoke")[0]
    experiment, _ = override(experiment, [f"training.epochs={epochs}", "evaluation.sizes=16"])
    run(experiment, preset="smoke", seed=0, folder=folder, world=World())
    return folder


def write_events(path: Path, num_events: int, num_users: int) -> None:
    user, amount = (torch.randint(0, most, (num_events,)) for most in (num_users, 256))
    table = pa.table({"user": user.numpy(), "amount": amount.numpy()})
    pq.write_table(table, path, row_group_size=num_events // 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--address", help="of a Ray cluster; this machine if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, on_ray(arguments.address, progress=False):
        here, out = Path(name), Path(name) / "users.parquet"
        write_events(here / "events.parquet", arguments.events, num_users=1000)
        model = train(here / "run", arguments.epochs)
        summary = fold_table(
            model, here / "events.parquet", out, key="user", on="amount", decode=True
        )
        print(f"{summary.num_rows:,} events of {summary.num_keys:,} users; {summary.spread}")
        print(pq.read_table(out, columns=["user", "num_rows", "answer"]).slice(0, 5).to_pylist())
