"""A trained model as an aggregation of Ray Data: its operator merges what workers have folded.

Ray merges the accumulators of a key pairwise, and often one after the other: a chain as long as
there are blocks, over which a learned operator would drift. An accumulator is therefore a binary
counter. It has at most one state per power of two, and two states of about equally many rows are
merged as carries are, so no row is deeper than about 2 log2 n.
"""

import struct
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import torch
from ray.data.aggregate import AggregateFnV2
from torch import Tensor

from treefold.algebra import Monoid
from treefold.distributed.columns import check_rows, check_type
from treefold.distributed.model_fold import ModelFold
from treefold.fold import Groups

Counter: TypeAlias = list[tuple[int, Tensor]]
"""States `[1, *state]` with the numbers of their rows, the largest first, none of equal digits."""


class MonoidAggregate(AggregateFnV2[bytes, Any]):  # type: ignore[misc]
    """Folds a column with the operator of a trained model, to one state per key.

        fold = load_fold("runs/...")  # of `treefold.lab.experiments`
        dataset.groupby("user").aggregate(MonoidAggregate(fold, on="x"))

    The column holds what the model takes, or with `states` what it, or another fold, has made. A
    bad row (null, NaN, out of range, of the wrong width) is an error that names the row and the
    problem; with `skip_nulls`, nulls alone are left out, and a key with nothing else gets null.

    Ray cuts and merges where it likes, so the tree is not the same from run to run, and it merges
    key by key: `fold_table` is much faster. `table_stability` measures on a sample what another
    order changes. Remove rows with a null key first: Ray may partition integer keys in another way
    where a block has nulls, and give a key two results.
    """

    def __init__(
        self,
        model: object,
        on: str,
        *,
        states: bool = False,
        skip_nulls: bool = False,
        name: str | None = None,
    ) -> None:
        fold = ModelFold.of(model)
        self.fold = fold.takes_states() if states else fold
        self.skip_nulls = skip_nulls
        # Ray's own word for nulls, True, is about accumulators: an empty one is null.
        super().__init__(name or f"fold({on})", lambda: None, on=on, ignore_nulls=True)

    def aggregate_block(self, block: Any) -> bytes | None:
        """The rows of one key in one block."""
        table = block if isinstance(block, pa.Table) else pa.Table.from_pandas(block)
        column = table[self._target_col_name]
        check_type(column.type, self.fold, self._target_col_name)
        if self.skip_nulls:
            column = column.drop_null()
        checked = check_rows(column, self.fold)
        if len(checked.bad):
            raise ValueError(
                f"{len(checked.bad)} of {len(column)} rows of a key cannot be folded; the first, "
                f"row {checked.bad[0]} of column {self._target_col_name!r}, is "
                f"{checked.problems[0]}; remove such rows first, or use `treefold fold`, which "
                "reports them"
            )
        count = len(checked.good)
        if not count:
            return None
        return to_bytes([(count, self.fold.fold(checked.x, Groups.from_sizes([count])))])

    def combine(self, current_accumulator: bytes, new: bytes) -> bytes:
        """The partial states of two workers."""
        one, other = (from_bytes(data, self.fold.none) for data in (current_accumulator, new))
        return to_bytes(merged(one, other, self.fold.operator))

    def finalize(self, accumulator: bytes) -> Any:
        """The state of a key."""
        return total(from_bytes(accumulator, self.fold.none), self.fold.operator)[0].tolist()


@torch.no_grad()
def merged(one: Counter, other: Counter, op: Monoid) -> Counter:
    """Join two counters; states that stand for about as many rows are merged."""
    kept: Counter = []
    for count, state in sorted(one + other, key=lambda entry: entry[0]):
        # From the lowest digit up: a carry meets the next entry.
        while kept and kept[-1][0].bit_length() >= count.bit_length():
            before, left = kept.pop()
            count, state = before + count, cast(Tensor, op(left, state))
        kept.append((count, state))
    return kept[::-1]


@torch.no_grad()
def total(counter: Counter, op: Monoid) -> Tensor:
    """Merge all states, small ones first."""
    *larger, (_, state) = counter
    for _, each in reversed(larger):
        state = cast(Tensor, op(each, state))
    return state


def to_bytes(counter: Counter) -> bytes:
    """Serialize, for an engine that moves accumulators between workers."""
    counts = [count for count, _ in counter]
    header = struct.pack(f"<I{len(counts)}q", len(counts), *counts)
    return header + torch.cat([state for _, state in counter]).numpy().tobytes()


def from_bytes(data: bytes, none: Tensor) -> Counter:
    """Read what `to_bytes` has written, with states like those of `none`."""
    (length,) = struct.unpack_from("<I", data)
    counts = struct.unpack_from(f"<{length}q", data, 4)
    numbers = np.frombuffer(data, none.numpy().dtype, offset=4 + 8 * length).copy()
    states = torch.from_numpy(numbers).view(length, *none.shape[1:])
    return [*zip(counts, states.split(1), strict=True)]
