"""A trained model as an aggregation of Ray Data: its operator merges what workers have folded."""

from typing import Any

import pyarrow as pa
import torch
from ray.data.aggregate import AggregateFnV2

from treefold.distributed.columns import check_rows, check_type
from treefold.distributed.counter import Counter
from treefold.distributed.model_fold import ModelFold, required_model
from treefold.fold import Groups


class MonoidAggregate(AggregateFnV2[bytes, list[float]]):  # type: ignore[misc]
    """Folds a column with the operator of a trained model, to one state per key.

        fold = load_fold("runs/...")  # of `treefold.lab.experiments`
        dataset.groupby("user").aggregate(MonoidAggregate(fold, on="x"))

    The column holds integers, which the model embeds, or lists of floating-point numbers, which are
    states already. A bad row (null, NaN, out of range, of the wrong width) is an error that names
    the row and the problem; with `skip_nulls`, nulls alone are left out, and a key with nothing
    else gets null.

    Ray cuts and merges where it likes, so the tree is not the same from run to run; it is never
    deeper than about 2 log2 n, see `treefold.distributed.counter`. `table_stability` measures on a
    sample how far answers move with it. Remove rows with a null key first: Ray may partition
    integer keys in another way where a block has nulls, and give a key two results.
    """

    def __init__(
        self,
        fold: ModelFold,
        on: str,
        *,
        name: str | None = None,
        skip_nulls: bool = False,
    ) -> None:
        self.fold = required_model(fold)
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
        if checked.problems:
            place, problem = next(iter(sorted(checked.problems.items())))
            raise ValueError(
                f"{len(checked.problems)} of {len(column)} rows of a key cannot be folded; the "
                f"first, row {place} of column {self._target_col_name!r}, is {problem}; "
                "remove such rows first, or use `treefold fold`, which reports them"
            )
        if not len(checked.x):
            return None
        if len(checked.x) == 1:
            return Counter.of(self.fold.states(checked.x), 1).to_bytes()
        groups = Groups.from_sizes([len(checked.x)])
        return Counter.of(self.fold.fold(checked.x, groups), len(checked.x)).to_bytes()

    def combine(self, current_accumulator: bytes, new: bytes) -> bytes:
        """The partial states of two workers."""
        with torch.no_grad():
            merged = Counter.from_bytes(current_accumulator).merged(
                Counter.from_bytes(new), self.fold.operator
            )
        return merged.to_bytes()

    def finalize(self, accumulator: bytes) -> list[float]:
        """The state of a key."""
        with torch.no_grad():
            state = Counter.from_bytes(accumulator).total(self.fold.operator)
        numbers: list[float] = state.squeeze(0).tolist()
        return numbers
