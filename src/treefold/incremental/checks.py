"""Checks of arguments: rows, numbers of sets, integers."""

from collections.abc import Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import State, map_state
from treefold.fold import INTEGER_TYPES, num_rows
from treefold.shapes import Int

Integers: TypeAlias = Tensor | Sequence[int] | int
"""One number or several."""


def as_integers(values: Integers, what: str, device: torch.device) -> Int[Tensor, " n"]:
    """The numbers as an int64 tensor `[n]`."""
    tensor = torch.as_tensor(values, device=device).reshape(-1)
    if tensor.numel() and tensor.dtype not in INTEGER_TYPES:
        raise ValueError(f"{what} are {tensor.dtype}; expected integers, such as torch.int64")
    return tensor.long()


def as_sets(sets: Integers, num_sets: int, device: torch.device) -> Int[Tensor, " n"]:
    """The numbers of some of `num_sets` sets."""
    found = as_integers(sets, "sets", device)
    wrong = found[(found < 0) | (found >= num_sets)]
    if wrong.numel():
        raise ValueError(
            f"there is no set {int(wrong[0])} among {num_sets}; expected numbers from 0 on"
        )
    return found


def sets_of_rows(
    sets: Integers | None, rows: State, num_sets: int, device: torch.device
) -> Int[Tensor, " n"]:
    """The set of each row, from one set for all or one for each; None where there is but one."""
    if sets is None:
        if num_sets != 1:
            raise ValueError(f"there are {num_sets} sets; give `sets=`, the set of each row")
        sets = 0
    found, count = as_sets(sets, num_sets, device), num_rows(rows)
    if found.numel() not in (1, count):
        raise ValueError(f"{found.numel()} sets for {count} rows; expected one, or one each")
    return found.expand(count) if found.numel() == 1 else found


def rows_like(like: State, rows: State) -> State:
    """Rows of the same kind as others, without gradients."""
    num_rows(rows)
    return map_state(_alike, like, rows)


def _alike(like: Tensor, rows: Tensor) -> Tensor:
    if (rows.shape[1:], rows.dtype) != (like.shape[1:], like.dtype):
        expected = ", ".join(["n", *map(str, like.shape[1:])])
        raise ValueError(
            f"rows are {rows.dtype} of shape {tuple(rows.shape)}; "
            f"expected {like.dtype} of shape [{expected}], like the rows before"
        )
    return rows.detach()


def checked_edges(edge_index: Tensor, num_nodes: int, device: torch.device) -> Int[Tensor, " 2 n"]:
    """Edges between the nodes of a graph, or a ValueError."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index has shape {tuple(edge_index.shape)}; expected [2, edges]")
    if edge_index.dtype not in INTEGER_TYPES:
        raise ValueError(f"edge_index is {edge_index.dtype}; expected integers")
    edge_index = edge_index.to(device).long()
    wrong = edge_index[(edge_index < 0) | (edge_index >= num_nodes)]
    if wrong.numel():
        raise ValueError(
            f"edge_index names node {int(wrong[0])}, but there are {num_nodes} nodes; "
            "`add_nodes` makes more"
        )
    return edge_index


def rows_of_nodes(nodes: Integers, x: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Some nodes, each once, and a row for each."""
    found, x = as_sets(nodes, like.shape[0], like.device), cast(Tensor, rows_like(like, x))
    different = found.unique().numel()
    if x.shape[0] != found.numel() or different != found.numel():
        raise ValueError(
            f"{x.shape[0]} rows for {found.numel()} nodes, {different} of them "
            "different; expected one row each, and each node once"
        )
    return found, x
