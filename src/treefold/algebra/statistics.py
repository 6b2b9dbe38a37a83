"""Mean and variance as monoids: partial statistics that can be merged in any order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.exact import ExactMonoid, as_numbers, weight_like


@dataclass(frozen=True)
class Mean(ExactMonoid):
    """The mean, as (sum, count); of nothing it is NaN.

    The count has the shape and the type of the values, so half precision counts exactly up to 2048
    only (bfloat16: 256): widen before encoding for larger sets.
    """

    @property
    def identity(self) -> tuple[Tensor, Tensor]:
        """(0, 0)."""
        return torch.tensor(0), torch.tensor(0)

    def __call__(self, a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Add the sums and the counts."""
        return a[0] + b[0], a[1] + b[1]

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(x, 1); booleans become integers."""
        x = as_numbers(x)
        return x, torch.ones_like(x)

    def encode_weighted(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(weight x, weight)."""
        weighted = x * weight_like(weight, x)
        return weighted, weight_like(weight, x).to(weighted.dtype).expand_as(weighted)

    def decode(self, state: tuple[Tensor, Tensor]) -> Tensor:
        """sum / count; true division also for integers."""
        total, count = state
        return total / count


@dataclass(frozen=True)
class Variance(ExactMonoid):
    """The variance, as (count, mean, sum of squared deviations), merged pairwise as by Chan et al.

    Unlike E[x²] - E[x]² it does not cancel when the mean is large, and it is never negative. Of
    nothing it is NaN; `unbiased` divides by count - 1, which makes it NaN for one value too.
    Integers are encoded in torch's default floating type. Weights are repetitions: `unbiased`
    divides by their sum - 1.
    """

    unbiased: bool = False

    @property
    def identity(self) -> tuple[Tensor, Tensor, Tensor]:
        """(0, 0, 0)."""
        return torch.tensor(0), torch.tensor(0), torch.tensor(0)

    def __call__(
        self, a: tuple[Tensor, Tensor, Tensor], b: tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Merge two statistics; exact for empty ones."""
        (count_a, mean_a, squares_a), (count_b, mean_b, squares_b) = a, b
        count = count_a + count_b
        # The shares of a and b; of two empty states, 0 and 0.
        divisor = count.masked_fill(count == 0, 1)
        share_a, share_b = count_a / divisor, count_b / divisor
        mean = mean_a * share_a + mean_b * share_b
        between = (mean_a - mean_b).square() * (count * share_a * share_b)
        return count, mean, squares_a + squares_b + between

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(1, x, 0)."""
        x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        return torch.ones_like(x), x, torch.zeros_like(x)

    def encode_weighted(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(weight, x, 0)."""
        _, x, zeros = self.encode(x)
        return weight_like(weight, x).to(x.dtype).expand_as(x), x, zeros

    def decode(self, state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """The sum of squared deviations over count, or over count - 1."""
        count, _, squares = state
        return squares / ((count - 1).clamp(min=0) if self.unbiased else count)
