"""A counter of states: partial results that arrive in any order, merged over shallow trees.

An engine merges accumulators pairwise, and often one after the other: a chain as long as there are
blocks. A learned operator is only nearly associative, so chains would drift. As in a binary number,
a counter holds at most one state per power of two; two states of about equally many rows meet, as
carries do, and no row is deeper than about 2 log2 n.
"""

import struct
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from treefold.algebra import Monoid


@dataclass(frozen=True)
class Counter:
    """States by the number of rows they stand for, the largest first; no two of the same digit."""

    counts: tuple[int, ...]
    states: tuple[Tensor, ...]
    """One per count, `[1, channels]`."""

    @classmethod
    def of(cls, state: Tensor, num_rows: int) -> "Counter":
        """A counter with one state in it, `[1, channels]`, that stands for `num_rows` rows."""
        return cls((num_rows,), (state,))

    def merged(self, other: "Counter", op: Monoid) -> "Counter":
        """Join two counters; states that stand for about as many rows are merged."""
        found = [*zip(self.counts, self.states, strict=True)]
        found += zip(other.counts, other.states, strict=True)
        found.sort(key=lambda entry: entry[0])
        kept: list[tuple[int, Tensor]] = []
        for entry in found:  # from the lowest digit up: a carry meets the next entry
            while kept and _digit(kept[-1][0]) >= _digit(entry[0]):
                entry = _met(kept.pop(), entry, op)
            kept.append(entry)
        counts, states = zip(*reversed(kept), strict=True)
        return Counter(counts, states)

    def total(self, op: Monoid) -> Tensor:
        """Merge all states, small ones first."""
        state = self.states[-1]
        for larger in reversed(self.states[:-1]):
            state = _as_tensor(op(larger, state))
        return state

    def to_bytes(self) -> bytes:
        """Serialize, for an engine that moves accumulators between workers."""
        header = struct.pack(f"<I{len(self.counts)}q", len(self.counts), *self.counts)
        return header + torch.cat(self.states).to(torch.float32).numpy().tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Counter":
        """Read what `to_bytes` has written."""
        (length,) = struct.unpack_from("<I", data)
        counts = struct.unpack_from(f"<{length}q", data, 4)
        numbers = np.frombuffer(data, dtype=np.float32, offset=4 + 8 * length).copy()
        return cls(counts, torch.from_numpy(numbers).view(length, -1).split(1))


def _digit(count: int) -> int:
    return count.bit_length()


def _met(one: tuple[int, Tensor], other: tuple[int, Tensor], op: Monoid) -> tuple[int, Tensor]:
    return one[0] + other[0], _as_tensor(op(one[1], other[1]))


def _as_tensor(state: object) -> Tensor:
    assert isinstance(state, Tensor)
    return state
