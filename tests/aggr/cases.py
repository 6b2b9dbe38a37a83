"""The registry with batches to feed it, and each set aggregated by hand: what the claims share."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor, nn

import treefold
from treefold import LCMAggregation, RecurrentAggregation, record_penalties
from treefold.algebra import map_state
from treefold.fold.reference import fold_balanced, fold_chain

CHANNELS = 4
NAMES = list(treefold.AGGREGATORS)
FIXED = ["sum", "mean", "max", "min", "std", "pna"]
RECURRENT = ["gru", "lstm"]
PROJECTED = ["finite-counters"]  # an element is not the row itself
MONOIDS = [name for name in NAMES if name not in FIXED + RECURRENT]

every = pytest.mark.parametrize("name", NAMES)
every_learned = pytest.mark.parametrize("name", RECURRENT + MONOIDS)
every_monoid = pytest.mark.parametrize("name", MONOIDS)

SIZES = st.lists(st.integers(0, 9), max_size=6)
few = settings(deadline=None, max_examples=10)

RAGGED = [3, 0, 1, 6, 0, 2, 5]
NUM_GROUPS = len(RAGGED)
INDEX = torch.arange(len(RAGGED)).repeat_interleave(torch.tensor(RAGGED))
UNSORTED = torch.tensor([3, 0, 6, 3, 3, 2, 6, 0, 5, 3, 6, 6, 5, 3, 0, 6, 3])  # the same sizes


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


X = normal(len(INDEX), CHANNELS)


def make(name: str, dtype: torch.dtype = torch.float64, seed: int = 0, **options: Any) -> Any:
    """An aggregator in evaluation, with no parameter at zero: learned identities are visible."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = stirred(treefold.aggregator(name, options.pop("channels", CHANNELS), **options))
    return made.to(dtype).eval()


def stirred(module: Any) -> Any:
    """The module with noise on every parameter."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def batch(sizes: Sequence[int], seed: int = 0, **options: Any) -> tuple[Tensor, Tensor]:
    """Random rows for sets of these sizes, and the index that says so."""
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64))
    return normal(sum(sizes), CHANNELS, seed=seed, **options), index


def recording(module: Any) -> AbstractContextManager[Any]:
    """Where to run a module in training: aggregators with law weights want a recorder."""
    return record_penalties() if getattr(module, "laws", None) else nullcontext()


def by_hand(name: str, module: Any, rows: Tensor) -> Tensor:
    """What the aggregator called `name` makes of one set of rows `[n, channels]`."""
    if isinstance(module, LCMAggregation):
        return lcm_by_hand(module, rows)
    if isinstance(module, RecurrentAggregation):
        start = map_state(lambda part: part.expand(1, -1), module.cell.initial)
        return module.cell.output(fold_chain(module.cell, start, list(rows.unsqueeze(1))))[0]
    return fixed_by_hand(name, rows)


def lcm_by_hand(module: Any, rows: Tensor) -> Tensor:
    rows = module.projected(rows)
    return (
        fold_balanced(module.operator, rows.split(1))[0] if len(rows) else module.operator.identity
    )


def fixed_by_hand(name: str, rows: Tensor) -> Tensor:
    """Plain torch; empty sets are zero, and scalers refer to sets of one, as in our registry."""
    if name == "pna":
        parts = [fixed_by_hand(part, rows) for part in ("mean", "max", "min", "std")]
        amplification = math.log(len(rows) + 1) / math.log(2)
        attenuation = math.log(2) / math.log(max(len(rows), 1) + 1)
        scalers = (1, amplification, attenuation)
        return torch.cat([scaler * part for scaler in scalers for part in parts])
    if not len(rows):
        return rows.new_zeros(rows.shape[1])
    folds = {
        "sum": lambda: rows.sum(0),
        "mean": lambda: rows.mean(0),
        "max": lambda: rows.amax(0),
        "min": lambda: rows.amin(0),
        "std": lambda: rows.std(0, correction=0),
    }
    return folds[name]()


def set_by_set(name: str, module: Any, x: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """Every group by itself, by hand."""
    return torch.stack([by_hand(name, module, x[index == group]) for group in range(num_groups)])


class Skewed(nn.Module):
    """A learned operator that breaks every law, so that no law loss is zero."""

    def __init__(self, channels: int = CHANNELS) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * channels, channels)
        self.identity = nn.Parameter(torch.ones(channels))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.tanh(self.linear(torch.cat([a, b], -1))) + a / 2
