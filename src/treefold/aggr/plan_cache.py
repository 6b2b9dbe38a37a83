"""Groups and plans that are made once and used by every layer.

A plan depends on group sizes alone, and `Groups` never change, so a plan lives as long as its
groups. Groups made from PyG's tensors can be shared too: inside `reuse_plans()`, layers that get
the same `index` get the same groups.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.fold import Bracketing, Groups, PackedOrder, TreePlan, lasting, plan_tree

T = TypeVar("T")

_made: WeakKeyDictionary[Groups, dict[str, Any]] = WeakKeyDictionary()
_shared: ContextVar[dict[Any, tuple[Any, Groups]] | None] = ContextVar("groups", default=None)


def plan_of(
    groups: Groups, bracketing: Bracketing, generator: torch.Generator | None = None
) -> TreePlan:
    """The plan for these groups, made at the first call; a fresh one each time if it is random."""
    sizes, device = groups.host_sizes, groups.order.device
    if bracketing == "random":
        return plan_tree(sizes, bracketing, generator, device)
    return _once(groups, bracketing, lambda: plan_tree(sizes, bracketing, None, device))


def packed_order_of(groups: Groups) -> PackedOrder:
    """The packed order of these groups, made at the first call."""
    return _once(groups, "packed", lambda: PackedOrder.of(groups))


@contextmanager
def reuse_plans(*known: tuple[Tensor, Groups]) -> Iterator[None]:
    """Inside, aggregations over the same `index` (or `ptr`) tensor share its groups and plans.

    Meant for one forward pass, or for all passes over a static graph. Tensors count as the same if
    they are the same memory, unchanged by torch in between.

    Pairs of an index and its groups are `known` from the start. Groups that a loader has made on
    the host, and moved by `groups.to(device)`, spare a GPU's host from waiting for their sizes.
    """
    token = _shared.set(
        {_key_of(index, groups): ((index, None), groups) for index, groups in known}
    )
    try:
        yield
    finally:
        _shared.reset(token)


def cached_groups(
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    num_rows: int,
    device: torch.device,
) -> Groups:
    """Groups from PyG's words, shared where `reuse_plans` says so."""
    shared = _shared.get()
    # Inference tensors do not tell whether they have changed.
    changes_unseen = any(given is not None and given.is_inference() for given in (index, ptr))
    if shared is None or changes_unseen:
        return groups_from_pyg(index, ptr, dim_size, num_rows, device)
    key = (_memory(index), _memory(ptr), dim_size, num_rows, device)
    if key not in shared:
        # Holding the tensors keeps their memory from being given to others.
        made = lasting(groups_from_pyg)(index, ptr, dim_size, num_rows, device)
        shared[key] = ((index, ptr), made)
    return shared[key][1]


def groups_from_pyg(
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    num_rows: int,
    device: torch.device,
) -> Groups:
    """Groups from PyG's words, or a ValueError that says what is wrong with them."""
    if ptr is not None:
        groups = Groups.from_ptr(ptr, num_rows).to(device)
        if dim_size is not None and dim_size != groups.num_groups:
            raise ValueError(
                f"dim_size is {dim_size}, but ptr describes {groups.num_groups} groups; "
                "leave dim_size out"
            )
        if index is not None:
            _require_agreement(Groups.from_index(index), index, groups)
        return groups
    if index is None:
        return Groups.from_sizes([num_rows]).to(device)
    if index.dim() == 2 and len(index) == 2:
        raise ValueError(
            f"index has shape {tuple(index.shape)}, like an edge_index; expected one dimension, "
            "the group of each row: for messages along edges, edge_index[1]"
        )
    if index.numel() != num_rows:
        raise ValueError(f"index has {index.numel()} entries, but x has {num_rows} rows along dim")
    try:
        return Groups.from_index(index, dim_size)
    except ValueError as error:
        given = "" if dim_size is None else f" (dim_size is {dim_size})"
        raise ValueError(f"{error}{given}") from None


def _require_agreement(by_index: Groups, index: Tensor, by_ptr: Groups) -> None:
    sizes = by_index.sizes
    lacking = by_ptr.num_groups - sizes.numel()  # at the end there may be groups without rows
    sizes = F.pad(sizes, (0, lacking)) if lacking > 0 else sizes
    if index.numel() != by_ptr.num_rows or not torch.equal(sizes, by_ptr.sizes):
        found, expected = sizes.tolist()[:8], by_ptr.sizes.tolist()[:8]
        raise ValueError(
            f"index and ptr make groups of different sizes, {found} and {expected} (the first 8); "
            "give one of them"
        )
    if not torch.equal(index.long(), by_ptr.index):
        raise ValueError("index and ptr disagree: ptr is about sorted rows, index is unsorted")


def _key_of(index: Tensor, groups: Groups) -> Any:
    if index.numel() != groups.num_rows or index.device != groups.order.device:
        raise ValueError(
            f"an index of {index.numel()} entries on {index.device} goes with groups of "
            f"{groups.num_rows} rows on {groups.order.device}; expected groups made from that "
            "index, on its device: give groups.to(index.device)"
        )
    return (_memory(index), None, groups.num_groups, groups.num_rows, index.device)


def _memory(tensor: Tensor | None) -> Any:
    if tensor is None:
        return None
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor._version)


def _once(groups: Groups, what: str, make: Callable[[], T]) -> T:
    made = _made.setdefault(groups, {})
    if what not in made:
        made[what] = lasting(make)()
    result: T = made[what]
    return result
