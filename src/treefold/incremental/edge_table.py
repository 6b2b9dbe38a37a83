"""A table of edges: handles by (source, target), found by search instead of by hashing.

Edges are kept sorted in two runs: a long one that is rarely written, and a short one for what is
new. A removed edge is only marked. Both are merged when the short one has grown to an eighth of
the long one, or when half of all entries are marked.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.fold import places_within
from treefold.incremental.tree_storage import bytes_of
from treefold.shapes import Bool, Int

_TARGET_BITS = 32
_SHORT = 1024


@dataclass(eq=False)
class _Run:
    keys: Int[Tensor, " n"]
    handles: Int[Tensor, " n"]
    alive: Bool[Tensor, " n"]

    @classmethod
    def sorted(cls, keys: Tensor, handles: Tensor) -> "_Run":
        keys, order = keys.sort(stable=True)
        return cls(keys, handles[order], torch.ones_like(keys, dtype=torch.bool))

    def between(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """For each i the entries with low[i] <= key < high[i]: which i, and which entry."""
        first, last = (torch.searchsorted(self.keys, bound) for bound in (low, high))
        counts = last - first
        asked = torch.repeat_interleave(counts)
        entries = torch.repeat_interleave(first, counts) + places_within(counts)
        alive = self.alive[entries]
        return asked[alive], entries[alive]


@dataclass(frozen=True, eq=False)
class Found:
    """Some edges: their handles, and where they are in the two runs."""

    handles: Int[Tensor, " n"]
    in_long: Int[Tensor, " m"]
    in_short: Int[Tensor, " k"]


class EdgeTable:
    """The handles of edges by their ends; there may be several edges between the same two nodes."""

    def __init__(self, edge_index: Int[Tensor, " 2 n"], handles: Int[Tensor, " n"]) -> None:
        self._long = _Run.sorted(_keys(edge_index), handles)
        self._short = _Run.sorted(handles[:0], handles[:0])
        self._num_removed = 0

    @property
    def num_bytes(self) -> int:
        """The memory of all arrays."""
        runs = (self._long, self._short)
        return bytes_of([part for run in runs for part in (run.keys, run.handles, run.alive)])

    def add(self, edge_index: Int[Tensor, " 2 n"], handles: Int[Tensor, " n"]) -> None:
        """Add new edges."""
        short = self._short
        keys = torch.cat([short.keys[short.alive], _keys(edge_index)])
        self._num_removed -= int((~short.alive).sum())
        self._short = _Run.sorted(keys, torch.cat([short.handles[short.alive], handles]))
        self._merge_if_due()

    def find(self, edge_index: Int[Tensor, " 2 n"]) -> Found:
        """Find one edge per column, no edge twice; a ValueError if one is missing."""
        keys, counts = _keys(edge_index).unique(return_counts=True)
        asked, found = [], []
        for run in (self._long, self._short):
            which, entries = run.between(keys, keys + 1)
            asked.append(which)
            found.append(entries)
        # Of each kind of edge, the first as many as are asked for.
        which, order = torch.cat(asked).sort(stable=True)
        available = torch.bincount(which, minlength=keys.numel())
        if bool((available < counts).any()):
            missing = int((available < counts).nonzero()[0])
            key = int(keys[missing])
            raise ValueError(
                f"{int(counts[missing])} edges from {key >> _TARGET_BITS} to "
                f"{key & ((1 << _TARGET_BITS) - 1)} are to be removed, but there are "
                f"{int(available[missing])}"
            )
        chosen = order[places_within(available) < counts[which]]
        in_long = chosen < found[0].numel()
        long_entries = found[0][chosen[in_long]]
        short_entries = found[1][chosen[~in_long] - found[0].numel()]
        handles = torch.cat([self._long.handles[long_entries], self._short.handles[short_entries]])
        return Found(handles, long_entries, short_entries)

    def remove(self, found: Found) -> None:
        """Mark edges as removed that were found just before."""
        self._long.alive[found.in_long] = False
        self._short.alive[found.in_short] = False
        self._num_removed += found.handles.numel()
        self._merge_if_due()

    def leaving(self, nodes: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
        """All edges with these sources: which of the nodes each leaves, and its handle."""
        low = nodes << _TARGET_BITS
        which, handles = [], []
        for run in (self._long, self._short):
            asked, entries = run.between(low, low + (1 << _TARGET_BITS))
            which.append(asked)
            handles.append(run.handles[entries])
        return torch.cat(which), torch.cat(handles)

    def _merge_if_due(self) -> None:
        long, short = self._long, self._short
        total = long.keys.numel() + short.keys.numel()
        if 8 * short.keys.numel() > long.keys.numel() + _SHORT or 2 * self._num_removed > total:
            keys = torch.cat([long.keys[long.alive], short.keys[short.alive]])
            handles = torch.cat([long.handles[long.alive], short.handles[short.alive]])
            self._long = _Run.sorted(keys, handles)
            self._short = _Run.sorted(keys[:0], handles[:0])
            self._num_removed = 0


def _keys(edge_index: Tensor) -> Tensor:
    return edge_index[0] << _TARGET_BITS | edge_index[1]
