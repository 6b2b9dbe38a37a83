"""The multiplications of a Binary-GRU fold: stacked weights times rows, and their gradients.

Rows are projected as they come (`Dense`); leaves from a table are projected once per row of the
table, and their projections gathered (`Shared`).
"""

from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import NUM_PROJECTIONS, doubled_new
from treefold.operators.workspace import Lease


class Run(NamedTuple):
    """Some pairs of one level: the nodes they make, and where their rows lie in the buffer."""

    nodes: slice
    rows: slice | Tensor


class Projection(Protocol):
    """Projects the rows of a run, and takes the gradients of those projections back."""

    def project(self, rows: Tensor, run: Run) -> Tensor:
        """The projections of a run's rows, in a buffer that the next call overwrites."""
        ...

    def backward(self, grad: Tensor, rows: Tensor, grad_rows: Tensor, run: Run) -> None:
        """Take in the gradient of a run's projections; add to `grad_rows` what belongs there."""
        ...


class Dense:
    """One multiplication per run; the gradients of the weights add up over runs."""

    def __init__(
        self, weight: Tensor, bias: Tensor, precision: torch.dtype, max_rows: int, inner: int
    ) -> None:
        self.weight = weight.to(precision)
        self.bias = bias
        self._lease = Lease((max_rows, inner, NUM_PROJECTIONS, weight.shape[1]), bias)
        self.buffer = self._lease.tensor

    @cached_property
    def forward_weight(self) -> Tensor:
        """The weights as `combine` wants their products."""
        return doubled_new(self.weight)

    @cached_property
    def forward_bias(self) -> Tensor:
        """The biases likewise."""
        return doubled_new(self.bias)

    @cached_property
    def grad_weight(self) -> Tensor:
        """The gradient of the weights so far."""
        return torch.zeros_like(self.weight, dtype=self.bias.dtype)

    @cached_property
    def grad_bias(self) -> Tensor:
        """The gradient of the biases so far."""
        return torch.zeros_like(self.bias)

    def project(self, rows: Tensor, run: Run | None = None) -> Tensor:
        """Multiply."""
        out = self.buffer[: rows.shape[0]]
        flat = out.view(-1, self.weight.shape[0])
        if self.weight.dtype == rows.dtype:
            torch.addmm(self.forward_bias, _flat(rows), self.forward_weight.t(), out=flat)
        else:
            product = _flat(rows).to(self.weight.dtype) @ self.forward_weight.t()
            torch.add(product, self.forward_bias, out=flat)
        return out

    def backward(
        self, grad: Tensor, rows: Tensor, grad_rows: Tensor, run: Run | None = None
    ) -> None:
        """Two multiplications: to the rows, and to the weights."""
        flat, precision = grad.view(-1, self.weight.shape[0]), self.weight.dtype
        ones = flat.new_ones(1, flat.shape[0])
        self.grad_bias.unsqueeze(0).addmm_(ones, flat)
        if precision == rows.dtype:
            self.grad_weight.addmm_(flat.t(), _flat(rows))
            _flat(grad_rows).addmm_(flat, self.weight)
        else:
            flat = flat.to(precision)
            self.grad_weight.add_(flat.t() @ _flat(rows).to(precision))
            _flat(grad_rows).add_(flat @ self.weight)


class Shared:
    """Leaves take their projections from those of a table; nodes are multiplied as in `Dense`.

    Leaf i is row `leaves[i]` of `table`. The gradients of a table row's projection add up over its
    leaves and are multiplied once, in `finish`.
    """

    def __init__(self, dense: Dense, table: Tensor, leaves: Tensor) -> None:
        self.dense, self.table, self.leaves = dense, table, leaves

    @cached_property
    def projections(self) -> Tensor:
        """The projections of the table's rows."""
        flat = _flat(self.table).to(self.dense.weight.dtype) @ self.dense.forward_weight.t()
        return (flat + self.dense.forward_bias).view(*self._shape)

    @cached_property
    def grad(self) -> Tensor:
        """The gradient of the projections of the table's rows so far."""
        return self.table.new_zeros(self._shape)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (*self.table.shape[:-1], NUM_PROJECTIONS, self.table.shape[-1])

    def project(self, rows: Tensor, run: Run) -> Tensor:
        """Gather for leaves, multiply for nodes."""
        if isinstance(run.rows, slice):
            if run.rows.start >= self.leaves.numel():
                return self.dense.project(rows)
            out = self.dense.buffer[: rows.shape[0]]
            return torch.index_select(self.projections, 0, self.leaves[run.rows], out=out)
        leaf, node = self._split(run.rows)
        made = self.dense.project(rows.index_select(0, node))
        out = made.new_empty(rows.shape[0], *made.shape[1:])
        out.index_copy_(0, node, made)
        gathered = self.projections.index_select(0, self.leaves[run.rows[leaf]])
        return out.index_copy_(0, leaf, gathered)

    def backward(self, grad: Tensor, rows: Tensor, grad_rows: Tensor, run: Run) -> None:
        """Collect for leaves, multiply for nodes."""
        if isinstance(run.rows, slice):
            if run.rows.start >= self.leaves.numel():
                self.dense.backward(grad, rows, grad_rows)
            else:
                self.grad.index_add_(0, self.leaves[run.rows], grad)
            return
        leaf, node = self._split(run.rows)
        grad_nodes = grad_rows.index_select(0, node)
        self.dense.backward(grad.index_select(0, node), rows.index_select(0, node), grad_nodes)
        grad_rows.index_copy_(0, node, grad_nodes)
        self.grad.index_add_(0, self.leaves[run.rows[leaf]], grad.index_select(0, leaf))

    def finish(self, grad_table: Tensor) -> None:
        """Add to the table's gradient, and the weights', what has been collected for its rows."""
        self.dense.backward(self.grad, self.table, grad_table)

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        is_leaf = rows < self.leaves.numel()
        return is_leaf.nonzero().squeeze(1), (~is_leaf).nonzero().squeeze(1)


def _flat(rows: Tensor) -> Tensor:
    return rows.view(-1, rows.shape[-1])
