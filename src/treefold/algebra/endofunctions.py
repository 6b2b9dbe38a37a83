"""Functions of a finite set into itself, under composition: the monoid behind a list fold."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Endofunctions:
    """The functions of 0, ..., n - 1 into itself; `f ⊕ g` is first f, then g. Not commutative.

    A function is the row of its values, `[*, n]`. A recurrent cell on n states gives each input x
    the function s -> cell(s, x); folding a list with the cell, from a start, is the reduction of
    these functions, applied to the start (appendix on recurrent aggregators). Two inputs commute
    here exactly where the swap law holds for them, in every state.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"functions on {self.n} states; expected at least 1")

    @classmethod
    def of(
        cls, cell: Callable[[Tensor, Tensor], Tensor], n: int, x: Tensor
    ) -> tuple["Endofunctions", Tensor]:
        """The monoid and, for each input in `x`, its function: where it takes each of n states."""
        states = torch.arange(n, device=x.device)
        inputs = x.repeat_interleave(n, 0)
        functions = cell(states.repeat(len(x)), inputs).view(len(x), n)
        if not ((functions >= 0) & (functions < n)).all():
            raise ValueError(f"the cell leaves the states 0 to {n - 1}; give the number it has")
        return cls(n), functions

    @property
    def identity(self) -> Tensor:
        """The function that leaves every state where it is."""
        return torch.arange(self.n)

    def __call__(self, f: Tensor, g: Tensor) -> Tensor:
        """First f, then g: at s, g(f(s))."""
        f, g = torch.broadcast_tensors(f, g)
        return g.gather(-1, f)

    def apply(self, f: Tensor, state: Tensor) -> Tensor:
        """The state that each function takes its state to."""
        return f.gather(-1, state.unsqueeze(-1)).squeeze(-1)
