"""Gated selection's second layer: one batched product for select, keep and new."""

from collections.abc import Sequence

import torch
from torch import Tensor

from treefold.operators.gpu.levels import Level


class SecondLayer:
    """Products of all pairs, `[products, rows, channels]`, and the buffers around them.

    Select multiplies the difference of both orders; keep and new multiply their sum, which is there
    twice, for one batched product to do all.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor | None],
        levels: list[Level],
        like: Tensor,
        saved: tuple[Tensor, Tensor | None] | None,
    ) -> None:
        select, write, self.bias = parameters
        self.selects, self.writes = select is not None, write is not None
        self.weight = self._stacked(select, write, like) if saved is None else saved[0]
        count, channels, width = self.weight.shape
        self._first = levels[0].node * levels[0].inner if levels else 0
        total = sum(level.num_rows for level in levels)
        most = max((level.num_rows for level in levels), default=0)
        sizes = [count * total * channels, count * most * width, 2 * total * width]
        sizes = sizes[:2] if saved is None else sizes
        memory: tuple[Tensor, ...] = like.new_empty(sum(sizes)).split(sizes)
        self._scratch = memory[1]
        self.products = memory[0].view(count, total, channels)
        if saved is not None and saved[1] is not None:
            self.products, self.grad_products = saved[1], self.products
            self.again = memory[2].view(2, total, width)

    def _stacked(self, select: Tensor | None, write: Tensor | None, like: Tensor) -> Tensor:
        given = [each for each in (select, write) if each is not None]
        stacked: Tensor = torch.cat(given) if len(given) > 1 else given[0]
        count = self.selects + 2 * self.writes
        made: Tensor = stacked.to(like.dtype)
        return made.view(count, len(stacked) // count, stacked.shape[1])

    def factors(self, level: Level) -> Tensor:
        """Memory for the factors of a level's products."""
        count, _, width = self.weight.shape
        used = count * level.num_rows * width
        return self._scratch[:used].view(count, level.num_rows, width)

    def rows_of(self, level: Level, tensor: Tensor) -> Tensor:
        """A level's part of the rows of all pairs."""
        start = level.node * level.inner - self._first
        return tensor[:, start : start + level.num_rows]

    def gradients(self, dtype: torch.dtype) -> list[Tensor | None]:
        """Gradients of select, write and its bias."""
        difference, added = self.again
        select = write = bias = None
        if self.selects:
            select = (self.grad_products[0].t() @ difference).to(dtype)
        if self.writes:
            grad = self.grad_products[-2:]
            write = torch.bmm(grad.mT, added.expand(2, -1, -1)).flatten(0, 1).to(dtype)
            bias = grad.sum(1, dtype=dtype).flatten()
        return [select, write, bias]
