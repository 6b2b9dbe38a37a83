"""From what nodes and edges carry to vectors: embeddings of categories, a linear map of numbers."""

from torch import Tensor, nn

from treefold.lab.networks import EmbeddedCategories
from treefold.lab.tasks import Categories, Numbers
from treefold.shapes import Float


class NumberEncoder(nn.Module):
    """A linear map of columns that are brought to a common scale first.

    Columns between 0 and 1, such as the parts of a one-hot code, are left as they are; others get
    the mean 0 and the deviation 1 that they have in the training data.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, training_rows: Float[Tensor, " n columns"], channels: int) -> None:
        super().__init__()
        rows = training_rows.double()
        shift, scale = rows.mean(0), rows.std(0, correction=0)
        bounded = (rows.amin(0) >= 0) & (rows.amax(0) <= 1)
        self.register_buffer("shift", shift.masked_fill(bounded, 0).float())
        self.register_buffer("scale", scale.masked_fill(bounded | (scale == 0), 1).float())
        self.linear = nn.Linear(training_rows.shape[1], channels)

    def forward(self, values: Float[Tensor, " n columns"]) -> Float[Tensor, " n channels"]:
        """A vector per row."""
        vectors: Tensor = self.linear((values - self.shift) / self.scale)
        return vectors


def encoder(inputs: Categories | Numbers, training_rows: Tensor, channels: int) -> nn.Module:
    """What turns rows of this kind into vectors."""
    if isinstance(inputs, Categories):
        return EmbeddedCategories(inputs, channels)
    return NumberEncoder(training_rows, channels)
