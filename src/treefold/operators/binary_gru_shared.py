"""The multiplications of a Binary-GRU fold whose leaves repeat: once per row of their table."""

import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import Projections
from treefold.operators.binary_gru_projection import Dense, Places


class Shared:
    """Leaves have the projections of a table's rows; nodes are multiplied as in `Dense`.

    Leaf i is row `leaves[i]` of `table`. In the buffer, the table comes first and nodes behind it.
    The gradients of a table row's projection add up over its leaves and are multiplied once.
    """

    def __init__(self, weight: Tensor, buffer: Tensor, table: Tensor, leaves: Tensor) -> None:
        self.table, self.leaves, self.buffer = table, leaves, buffer
        self.of_table = Dense(weight, buffer[: len(table)])
        self.of_nodes = Dense(weight, buffer[len(table) :])

    @property
    def grad_weight(self) -> Tensor:
        """The gradient of the weights so far."""
        return self.of_table.grad_weight + self.of_nodes.grad_weight

    def start(self) -> None:
        """Project the table."""
        self.of_table.project(self.table)

    def project(self, rows: Tensor, places: Places) -> Projections:
        """Gather for leaves, multiply for nodes."""
        if self._are_leaves(places):
            return Projections(self.buffer, self.leaves[places])
        if isinstance(places, slice):
            return self.of_nodes.project(rows)
        is_node = self._is_node(places)
        self.of_nodes.project(rows[is_node])
        return self._gathered(places, is_node, 0)

    def start_backward(self) -> None:
        """Nothing has reached the table yet."""
        self.of_table.take(len(self.table)).zero_()

    def room(self, places: Places) -> Projections:
        """Leaves add to the table's gradient; nodes have rows of their own."""
        if self._are_leaves(places):
            return Projections(self.buffer, self.leaves[places])
        if isinstance(places, slice):
            return self.of_nodes.room(places)
        is_node = self._is_node(places)
        self.of_nodes.take(int(is_node.sum())).zero_()
        return self._gathered(places, is_node, self.of_nodes.first_taken)

    def backward(self, rows: Tensor, grad_rows: Tensor, places: Places) -> None:
        """Multiply for nodes; leaves have been added up."""
        if self._are_leaves(places):
            return
        if isinstance(places, slice):
            self.of_nodes.backward(rows, grad_rows, places)
            return
        is_node = self._is_node(places)
        grad_nodes = grad_rows[is_node]
        self.of_nodes.backward(rows[is_node], grad_nodes, places)
        grad_rows[is_node] = grad_nodes

    def finish(self, grad_table: Tensor) -> None:
        """Multiply to the table, whose gradient is added to, and to the weights."""
        self.of_nodes.finish()
        self.of_table.backward(self.table, grad_table)
        self.of_table.finish()

    def _are_leaves(self, places: Places) -> bool:
        return isinstance(places, slice) and places.start < len(self.leaves)

    def _is_node(self, places: Tensor) -> Tensor:
        return places >= len(self.leaves)

    def _gathered(self, places: Tensor, is_node: Tensor, first: int) -> Projections:
        """From the table for leaves, from one of the rows behind it for each node in turn."""
        behind = is_node.cumsum(0) + (len(self.table) + first - 1)
        in_table = self.leaves[places.clamp(max=len(self.leaves) - 1)]
        return Projections(self.buffer, torch.where(is_node, behind, in_table))
