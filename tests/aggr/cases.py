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
from treefold.aggr.signal_mixing import SMALLEST
from treefold.algebra import map_state
from treefold.fold.reference import fold_balanced, fold_chain

CHANNELS = 4
NAMES = list(treefold.AGGREGATORS)
FIXED = ["sum", "mean", "max", "min", "std", "pna"]
RECURRENT = ["gru", "lstm"]
PROJECTED = ["finite-counters"]  # an element is not the row itself
MIXED = ["ssma", "pna-selection"]  # learned, and wider or other than one learned state
MONOIDS = [name for name in NAMES if name not in FIXED + RECURRENT + MIXED]

every = pytest.mark.parametrize("name", NAMES)
every_learned = pytest.mark.parametrize("name", RECURRENT + MONOIDS + MIXED)
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
    """A context to run a module in training: aggregators with law weights want a recorder."""
    return record_penalties() if getattr(module, "laws", None) else nullcontext()


def by_hand(name: str, module: Any, rows: Tensor) -> Tensor:
    """The result of the aggregator called `name` for one set of rows `[n, channels]`."""
    if isinstance(module, LCMAggregation):
        return lcm_by_hand(module, rows)
    if isinstance(module, RecurrentAggregation):
        start = map_state(lambda part: part.expand(1, -1), module.cell.initial)
        return module.cell.output(fold_chain(module.cell, start, list(rows.unsqueeze(1))))[0]
    if name == "ssma":
        return ssma_by_hand(module.monoid, rows)
    if name == "pna-selection":
        state = lcm_by_hand(module.learned, rows)
        return torch.cat([fixed_by_hand("pna", rows), *(s * state for s in pna_scalers(len(rows)))])
    return fixed_by_hand(name, rows)


def ssma_by_hand(monoid: Any, rows: Tensor) -> Tensor:
    """The geometric mean of magnitudes, and the phase of the product, by torch's own transforms."""
    if not len(rows):
        return rows.new_zeros(rows.shape[1])
    grid = (2 * monoid.side - 1,) * 2
    signals = monoid.to_signal(rows).view(-1, monoid.side, monoid.side)
    spectra = torch.fft.fft2(signals, s=grid)
    magnitude = (spectra.abs().square() + SMALLEST).log().mean(0).div(2).exp()
    product = (spectra / spectra.abs()).prod(0) * magnitude
    return monoid.from_signal(torch.fft.ifft2(product).real.flatten())


def pna_scalers(size: int) -> tuple[float, float, float]:
    """Those of PNA, which refer to sets of one."""
    return 1, math.log(size + 1) / math.log(2), math.log(2) / math.log(max(size, 1) + 1)


def lcm_by_hand(module: Any, rows: Tensor) -> Tensor:
    rows = module.projected(rows)
    return (
        fold_balanced(module.operator, rows.split(1))[0] if len(rows) else module.operator.identity
    )


def fixed_by_hand(name: str, rows: Tensor) -> Tensor:
    """Plain torch; empty sets are zero, and scalers refer to sets of one, as in our registry."""
    if name == "pna":
        parts = [fixed_by_hand(part, rows) for part in ("mean", "max", "min", "std")]
        return torch.cat([scaler * part for scaler in pna_scalers(len(rows)) for part in parts])
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


class Layer(nn.Module):
    """Messages along edges, an aggregator, and a linear map of what it answers."""

    def __init__(self, aggregator: Any, out_channels: int = 2) -> None:
        super().__init__()
        self.aggregator = aggregator
        width = getattr(aggregator, "out_channels", CHANNELS)
        self.linear = nn.Linear(width, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.linear(self.aggregator(x[edge_index[0]], edge_index[1], dim_size=x.shape[0]))
