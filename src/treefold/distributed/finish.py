"""The last step of folding a table: final column types, and the model's answers."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from treefold.distributed.model_fold import ModelFold
from treefold.distributed.schema import ANSWER, NO_KEY, STATE


@dataclass(frozen=True)
class Finish:
    """Brings columns to their final types, and adds the model's answers."""

    fold: ModelFold | None
    channels: int
    key: str
    key_type: pa.DataType

    def __call__(self, batch: pa.Table) -> pa.Table:
        """States as lists of fixed length, keys as in the source; no state has no answer."""
        # Where all values of a column are null, what Ray has merged has the type `null`.
        keys = pc.if_else(batch[NO_KEY], None, batch[self.key]).cast(self.key_type)
        batch = batch.set_column(batch.column_names.index(self.key), self.key, keys)
        batch = batch.drop_columns([NO_KEY])
        kind = pa.list_(pa.float32(), self.channels)
        states = batch[STATE].combine_chunks().cast(pa.list_(pa.float32())).cast(kind)
        batch = batch.set_column(batch.column_names.index(STATE), STATE, states)
        if self.fold is None:
            return batch
        valid = states.is_valid().to_numpy(zero_copy_only=False)
        answers = np.zeros(len(states), dtype=np.int64)
        numbers = states.drop_null().flatten().to_numpy(zero_copy_only=False)
        found = self.fold.answers(torch.from_numpy(numbers.copy()).view(-1, self.channels))
        answers[valid] = found.numpy()
        return batch.append_column(ANSWER, pa.array(answers, mask=~valid))
