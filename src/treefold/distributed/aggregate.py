"""A trained model as an aggregation of Ray Data: its operator merges what workers have folded.

Ray joins the accumulators of a key pairwise, and often one after the other: a chain as long as
there are blocks, over which a learned operator would drift. An accumulator therefore holds states
with the numbers of their rows, which are merged when there are many, small ones with small ones.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from ray.data.aggregate import AggregateFnV2
from torch import Tensor

from treefold.distributed.columns import check_rows, check_type
from treefold.distributed.model_fold import ModelFold
from treefold.fold import Groups

MOST_STATES = 256
"""States that an accumulator holds of a key."""


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
        return to_bytes(
            torch.tensor([count]), self.fold.fold(checked.x, Groups.from_sizes([count]))
        )

    def combine(self, current_accumulator: bytes, new: bytes) -> bytes:
        """The partial states of two workers."""
        parts = [from_bytes(data, self.fold.none) for data in (current_accumulator, new)]
        counts, states = map(torch.cat, zip(*parts, strict=True))
        while len(counts) > MOST_STATES:
            counts, states = self._with_small_ones_merged(counts, states)
        return to_bytes(counts, states)

    def finalize(self, accumulator: bytes) -> Any:
        """The state of a key."""
        counts, states = from_bytes(accumulator, self.fold.none)
        return self.fold.merge(states, Groups.from_sizes([len(counts)]))[0].tolist()

    def _with_small_ones_merged(self, counts: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """The smaller half of the states, merged in pairs, and the others."""
        order = counts.argsort(stable=True)
        small, large = order.tensor_split([max(2, len(order) // 4 * 2)])
        pairs = small.view(-1, 2)
        merged = self.fold.merge(states[small], Groups.from_sizes([2] * len(pairs)))
        counts = torch.cat([counts[pairs].sum(1), counts[large]])
        return counts, torch.cat([merged, states[large]])


def to_bytes(counts: Tensor, states: Tensor) -> bytes:
    """Serialize, for an engine that moves accumulators between workers."""
    return len(counts).to_bytes(8) + counts.numpy().tobytes() + states.numpy().tobytes()


def from_bytes(data: bytes, none: Tensor) -> tuple[Tensor, Tensor]:
    """Read what `to_bytes` has written, with states like those of `none`."""
    length = int.from_bytes(data[:8])
    counts = np.frombuffer(data, np.int64, length, offset=8).copy()
    numbers = np.frombuffer(data, none.numpy().dtype, offset=8 + 8 * length).copy()
    return torch.from_numpy(counts), torch.from_numpy(numbers).view(length, *none.shape[1:])
