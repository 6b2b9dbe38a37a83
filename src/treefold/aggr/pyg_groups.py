"""Groups from PyG's words: `index`, `ptr` and `dim_size`, checked in one place.

Inside `reuse_plans()`, layers that get the same `index` get the same groups, and so the same plans.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.aggr.static import StaticGroups, _settings, is_static, static_groups
from treefold.fold import Groups

_shared: ContextVar[dict[Any, tuple[Any, Groups]] | None] = ContextVar("groups", default=None)


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


def groups_of(
    x: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    dim: int,
    max_num_elements: int | None,
) -> Groups | StaticGroups:
    """Groups of the slices of `x` along `dim`; static ones where sizes cannot be read.

    A ValueError names what is wrong with the input.
    """
    compiling, plain = torch.compiler.is_compiling(), isinstance(x, Tensor)
    for given in (x, index, ptr):
        if given is not None and plain:
            plain = type(given) is Tensor and given.layout is torch.strided
            plain = plain and given.device == x.device and not (given.is_nested or given.is_meta)
    if not (plain or compiling):  # what is unusual is looked at more closely
        _require_plain(x, index, ptr)
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"dim is {dim}, but x has {x.dim()} axes {tuple(x.shape)}")
    num_rows = x.shape[dim]
    if (compiling or not plain or _settings.requested) and is_static(x):
        return static_groups(index, ptr, dim_size, num_rows, max_num_elements, x)
    if index is not None and ptr is None and _shared.get() is None:
        groups = Groups.from_index(index, dim_size, num_rows)
    else:
        groups = _shared_groups(index, ptr, dim_size, num_rows, x.device)
    if max_num_elements is not None and groups.max_size > max_num_elements:
        raise ValueError(
            f"a group has {groups.max_size} elements, but max_num_elements is "
            f"{max_num_elements}; nothing is cut off here, so leave max_num_elements out"
        )
    return groups


def _shared_groups(
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    num_rows: int,
    device: torch.device,
) -> Groups:
    shared = _shared.get()
    # Inference tensors do not report changes.
    changes_unseen = any(given is not None and given.is_inference() for given in (index, ptr))
    if shared is None or changes_unseen:
        return _make(index, ptr, dim_size, num_rows, device)
    key = (_memory(index), _memory(ptr), dim_size, num_rows, device)
    if key not in shared:
        with torch.inference_mode(False):  # for training too, wherever they are first asked for
            # Holding the tensors keeps their memory from being given to others.
            shared[key] = ((index, ptr), _make(index, ptr, dim_size, num_rows, device))
    return shared[key][1]


def _make(
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    num_rows: int,
    device: torch.device,
) -> Groups:
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
    return Groups.from_index(index, dim_size, num_rows)


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


def _require_plain(x: object, index: object, ptr: object) -> None:
    """Refuse what is no tensor, has no strides, or lies on another device than `x`."""
    for name, given in (("x", x), ("index", index), ("ptr", ptr)):
        if given is None and name != "x":
            continue
        if not isinstance(given, Tensor):
            raise ValueError(
                f"{name} is a {type(given).__name__}; expected a tensor: give "
                f"torch.as_tensor({name})"
            )
        if given.layout != torch.strided:
            raise ValueError(
                f"{name} has layout {given.layout}; expected torch.strided: give {name}.to_dense()"
            )
        on_host = name == "ptr" and given.is_cpu  # there it is read sooner
        if isinstance(x, Tensor) and given.device != x.device and not on_host:
            raise ValueError(
                f"{name} is on {given.device}, but x is on {x.device}; expected both on one "
                f"device: give {name}.to(x.device)"
            )
