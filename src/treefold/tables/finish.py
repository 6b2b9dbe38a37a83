"""The last step of folding a table: final column types, and the model's answers."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from treefold.tables.model_fold import ModelFold
from treefold.tables.partial_fold import STATE


@dataclass(frozen=True)
class Finish:
    """Brings columns to their final types, and adds the model's answers."""

    fold: ModelFold | None
    channels: int

    def __call__(self, batch: pa.Table) -> pa.Table:
        """States as lists of fixed length; answers are null where states are."""
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
        return batch.append_column("answer", pa.array(answers, mask=~valid))
