"""Sampling of law losses: at which nodes, and how squares are reduced to one number."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from treefold.shapes import Int

Reduction: TypeAlias = Literal["sum", "mean"] | str


@dataclass(frozen=True)
class Sampling:
    """Sample a law loss at `num_nodes` random nodes (None: all), and reduce it over features.

    The `"sum"` of squares over features is the paper's |·|²; their `"mean"` does not grow with the
    number of channels.
    """

    num_nodes: int | None = None
    reduction: Reduction = "sum"

    def __post_init__(self) -> None:
        num_nodes = self.num_nodes
        if num_nodes is not None and (not isinstance(num_nodes, int) or num_nodes < 1):
            raise ValueError(f"law_nodes is {num_nodes!r}; expected 1 or more, or None for all")
        if self.reduction not in ("sum", "mean"):
            raise ValueError(f"the reduction is {self.reduction!r}; expected 'sum' or 'mean'")

    def choose(
        self, candidates: Int[Tensor, " n"], generator: torch.Generator | None
    ) -> Int[Tensor, " m"]:
        """Some of the candidates, each with the same probability, none twice."""
        if self.num_nodes is None or self.num_nodes >= candidates.numel():
            return candidates
        return self.shuffled(candidates, generator)[: self.num_nodes]

    def shuffled(
        self, candidates: Int[Tensor, " n"], generator: torch.Generator | None
    ) -> Int[Tensor, " n"]:
        """All candidates, in random order."""
        device = candidates.device if generator is None else generator.device
        order = torch.randperm(candidates.numel(), generator=generator, device=device)
        return candidates[order.to(candidates.device)]

    def mean_square(self, left: Tensor, right: Tensor, expected_rows: float | int) -> Tensor:
        """Squared distances of rows, summed and divided by how many are expected of the sample."""
        inner = left.shape[1:-1].numel()
        width = left.shape[-1] if self.reduction == "mean" else 1
        return (left - right).square().sum() / max(expected_rows * inner * width, 1)
