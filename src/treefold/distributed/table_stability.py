"""How far the answers of a table can move with the cuts of an engine, measured on a sample."""

from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor

from treefold.distributed.columns import check_rows, check_type
from treefold.distributed.model_fold import ModelFold, required_model
from treefold.distributed.schema import plain_keys
from treefold.fold import Groups
from treefold.incremental import BracketingSpread, bracketing_spread

NUM_BRACKETINGS = 8


@dataclass(frozen=True, eq=False)
class TableSpread:
    """What other trees make of the keys of a sample; only keys with two or more rows count."""

    distances: BracketingSpread
    """Between states, or with `decode` between logits."""
    num_keys: int
    num_rows: int
    """Of these keys, in the sample."""
    changed: float | None = None
    """With `decode`: the share of answers of other trees that are not those of the balanced one."""

    def __str__(self) -> str:
        if not self.num_keys:
            return "not measured: the sample has no key with two or more rows"
        found = (
            f"{self.distances}, over {self.num_keys:,} keys with two or more rows "
            f"({self.num_rows:,} rows)"
        )
        if self.changed is None:
            return found
        return f"{found}; {self.changed:.2%} of answers change with the tree"


def table_spread(
    fold: ModelFold,
    sample: pa.Table,
    *,
    key: str,
    on: str,
    decode: bool = False,
) -> TableSpread:
    """How far the states of a sample's keys (with `decode`, logits and answers) move with the tree.

    `sample` is an Arrow table small enough for one machine, best with all rows of some keys: such
    as `pa.Table.from_pandas(dataset.filter(expr="user < 50").to_pandas())`. Rows in a row may have
    different keys, and a key with one row tells nothing. Bad rows and null keys are left out.
    """
    required_model(fold)
    check_type(sample[on].type, fold, on)
    x, groups = _sets(sample, key, on, fold)
    answers: list[Tensor] = []

    def decoded(state: Tensor) -> Tensor:
        """Logits; the answers are kept, of the balanced tree first and then of the others."""
        answers.append(fold.answers(state))
        logits: Tensor = fold.decoder(state)
        return logits

    distances = bracketing_spread(
        fold.operator,
        fold.states(x),
        groups,
        NUM_BRACKETINGS,
        torch.Generator().manual_seed(0),
        decode=decoded if decode else None,
    )
    return TableSpread(distances, groups.num_groups, groups.num_rows, _share_changed(answers))


def _share_changed(answers: list[Tensor]) -> float | None:
    if not answers or not len(answers[0]):
        return None
    balanced, *others = answers
    return float((torch.stack(others) != balanced).double().mean())


def _sets(sample: pa.Table, key: str, on: str, fold: ModelFold) -> tuple[Tensor, Groups]:
    """The good rows of keys that have two or more of them."""
    keys = plain_keys(sample[key].combine_chunks()).dictionary_encode()
    places = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    checked = check_rows(sample[on], fold)
    index = torch.from_numpy(places.copy()).long()[checked.good]
    has_key = index >= 0
    x, index = checked.x[has_key], index[has_key]
    several = torch.bincount(index)[index] > 1
    _, index = torch.unique(index[several], return_inverse=True)
    return x[several], Groups.from_index(index)
