"""How far a table's answers can move with the cuts of an engine, measured on its first rows."""

from typing import Any

import pyarrow.parquet as pq
import torch

from treefold.living import BracketingSpread, bracketing_spread
from treefold.reduction import Groups
from treefold.tables.columns import check_rows
from treefold.tables.model_fold import ModelFold

NUM_ROWS, NUM_BRACKETINGS = 4096, 8


def spread_of_first_rows(
    fold: ModelFold, piece: dict[str, Any], key: str, on: str, decode: bool
) -> BracketingSpread:
    """The spread over bracketings of the keys in a piece's first rows; of logits with `decode`."""
    with pq.ParquetFile(piece["file"]) as file:
        groups_of_rows = [piece["row_group"]]
        batch = next(file.iter_batches(NUM_ROWS, row_groups=groups_of_rows, columns=[key, on]))
    checked = check_rows(batch.column(on), fold)
    keys = batch.column(key).dictionary_encode(null_encoding="encode")
    index = torch.from_numpy(keys.indices.to_numpy(zero_copy_only=False).copy()).long()
    groups = Groups.from_index(index[checked.good], len(keys.dictionary))
    return bracketing_spread(
        fold.operator,
        fold.states(checked.x),
        groups,
        NUM_BRACKETINGS,
        torch.Generator().manual_seed(0),
        decode=fold.decoder if decode else None,
    )
