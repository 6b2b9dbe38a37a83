"""Fold a table of events by user with a trained model: on all cores, or on a Ray cluster.

The published weights have learned second minima of at most 16 numbers; users have about 200 events.
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

import treefold
from treefold.distributed import fold_table
from treefold.lab.experiments import load_fold

MODEL = Path(__file__).parents[1] / "results/second-minimum/gated-selection-general/standard/seed-0"


def write_events(path: Path, num_events: int, num_users: int) -> torch.Tensor:
    """A random table; gives every user's true second smallest amount."""
    torch.manual_seed(0)
    user, amount = (torch.randint(0, most, (num_events,)) for most in (num_users, 256))
    table = pa.table({"user": user.numpy(), "amount": amount.numpy()})
    pq.write_table(table, path, row_group_size=num_events // 4)
    second = treefold.MonoidAggregation(treefold.algebra.KthMinimum(2))
    found = second(amount.unsqueeze(1), user, dim_size=num_users).squeeze(1)
    return found.clamp(max=255)  # which is the answer of a single event


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--address", help="of a Ray cluster; this machine if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        events, out = Path(name) / "events.parquet", Path(name) / "users.parquet"
        truth = write_events(events, arguments.events, arguments.users)
        fold, columns = load_fold(MODEL), {"key": "user", "on": "amount"}
        summary = fold_table(fold, events, out, **columns, decode=True, address=arguments.address)
        users = pq.read_table(out, columns=["user", "num_rows", "answer"])
    print(f"{summary.num_rows:,} events of {summary.num_keys:,} users; {summary.stability}")
    print(users.slice(0, 3).to_pylist())
    user, answer = (torch.tensor(users[name].to_pylist()) for name in ("user", "answer"))
    right, common = (answer == truth[user]).double().mean(), truth[user].mode().values
    constant = (truth[user] == common).double().mean()
    print(f"answered rightly: {right:.3f} of users; by always saying {common}: {constant:.3f}")
