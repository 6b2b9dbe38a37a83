"""Sets as they come where there is no graph: padded, nested, packed, or in a list."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import ExactMonoid, Monoid, State
from treefold.fold.groups import Groups
from treefold.fold.planning import Bracketing, plan_of
from treefold.fold.tree import BinaryFunction, tree_reduce

Sets: TypeAlias = Tensor | Sequence[Tensor]


class PackedSets(NamedTuple):
    """The rows of all sets, set after set: set i is `rows[offsets[i] : offsets[i + 1]]`."""

    rows: Tensor
    offsets: Tensor


def reduce_sets(
    op: Monoid | BinaryFunction,
    x: Any,
    *,
    mask: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    weight: Any = None,
    bracketing: Bracketing = "balanced",
    generator: torch.Generator | None = None,
) -> Any:
    """Fold each set with `op`; one row per set, the identity for empty ones.

    `x` is a list of tensors `[size, *feature]`, a nested tensor, a padded batch
    `[sets, places, *feature]` with a boolean `mask` that is true where there is an element, or rows
    `[n, *feature]` with `cu_seqlens`, the running total of sizes, from 0 to n.

    An exact monoid encodes the elements and decodes its answers. It may take a `weight` for each
    element, given as `x` is given; see `ExactMonoid.encode_weighted`.
    """
    packed = pack_sets(x, mask, cu_seqlens)
    states: State = packed.rows
    if weight is not None:
        if not isinstance(op, ExactMonoid):
            raise ValueError(f"{type(op).__name__} takes no weights; some exact monoids do")
        states = op.encode_weighted(packed.rows, pack_weight(weight, x, mask, packed))
    elif isinstance(op, ExactMonoid):
        states = op.encode(packed.rows)
    groups = _groups_of(packed, cu_seqlens)
    found = tree_reduce(op, states, plan_of(groups, bracketing, generator))
    return op.decode(found) if isinstance(op, ExactMonoid) else found


def pack_sets(x: Any, mask: Tensor | None = None, cu_seqlens: Tensor | None = None) -> PackedSets:
    """The rows of all sets without padding, or a ValueError that names what is wrong with them."""
    if isinstance(x, list | tuple):
        _require_alone("a list of sets", mask, cu_seqlens)
        return _pack_list(x)
    if not isinstance(x, Tensor):
        raise ValueError(f"x is a {type(x).__name__}; expected a tensor, or a list of tensors")
    if x.is_nested:
        _require_alone("a nested tensor", mask, cu_seqlens)
        return _pack_nested(x)
    if mask is not None:
        _require_alone("a padded batch", None, cu_seqlens)
        require_mask(x, mask)
        sizes = mask.sum(1)
        places = mask.flatten().nonzero().squeeze(1)
        return PackedSets(x.flatten(0, 1).index_select(0, places), _offsets(sizes))
    if cu_seqlens is not None:
        return PackedSets(x, cu_seqlens)
    raise ValueError(
        f"x has shape {tuple(x.shape)} and nothing says which rows sit together; give a mask or "
        "cu_seqlens, or a list of tensors"
    )


def pack_weight(weight: Any, x: Any, mask: Tensor | None, packed: PackedSets) -> Tensor:
    """The weights of all rows, which are given as the rows are."""
    is_plain = isinstance(weight, Tensor) and not weight.is_nested
    if is_plain != (isinstance(x, Tensor) and not x.is_nested):
        raise ValueError(
            f"weight is a {type(weight).__name__} and x a {type(x).__name__}; expected weights in "
            "the form of the rows, one number for each row"
        )
    if is_plain and mask is None:
        return cast(Tensor, weight)
    if is_plain and weight.shape != mask.shape:  # type: ignore[union-attr]
        raise ValueError(f"weight has shape {tuple(weight.shape)}; expected that of mask")
    weights = pack_sets(weight, mask)
    if not torch.equal(weights.offsets, packed.offsets):
        sizes = [each.offsets.diff().tolist()[:8] for each in (weights, packed)]
        raise ValueError(f"sets of weights have sizes {sizes[0]}, sets of x {sizes[1]} (first 8)")
    return weights.rows


def require_mask(x: Tensor, mask: Tensor) -> None:
    """Refuse a mask that is not one boolean for each place of the padded batch `x`."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = mask.dtype if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise ValueError(
            f"mask is {found}; expected torch.bool, true where there is an element: give mask > 0"
        )
    if mask.dim() != 2 or mask.shape != x.shape[:2]:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} and x {tuple(x.shape)}; expected [sets, places] "
            "and [sets, places, *feature]"
        )
    if mask.device != x.device:
        raise ValueError(
            f"mask is on {mask.device}, but x is on {x.device}: give mask.to(x.device)"
        )


def _pack_list(sets: Sequence[Any]) -> PackedSets:
    if not sets:
        raise ValueError("x is an empty list; expected a tensor [size, *feature] for each set")
    for number, rows in enumerate(sets):
        if not isinstance(rows, Tensor) or rows.dim() == 0:
            found = type(rows).__name__ if not isinstance(rows, Tensor) else "number"
            raise ValueError(
                f"entry {number} of x is a {found}; expected a tensor [size, *feature] for each set"
            )
        if rows.shape[1:] != sets[0].shape[1:]:
            raise ValueError(
                f"entries 0 and {number} of x have shapes {tuple(sets[0].shape)} and "
                f"{tuple(rows.shape)}; expected the same but for the first axis"
            )
    sizes = torch.tensor([rows.shape[0] for rows in sets], device=sets[0].device)
    return PackedSets(torch.cat(list(sets)), _offsets(sizes))


def _pack_nested(x: Tensor) -> PackedSets:
    is_jagged = x.layout == torch.jagged and getattr(x, "_ragged_idx", 1) == 1
    if is_jagged and cast(Any, x).lengths() is None:
        return PackedSets(cast(Any, x).values(), cast(Any, x).offsets())
    return _pack_list(x.unbind())  # strided, transposed, or with holes between sets


def _offsets(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _groups_of(packed: PackedSets, cu_seqlens: Tensor | None) -> Groups:
    try:
        return Groups.from_ptr(packed.offsets, packed.rows.shape[0])
    except ValueError as error:
        name = "ptr" if cu_seqlens is None else "cu_seqlens"
        raise ValueError(str(error).replace("ptr", name)) from None


def _require_alone(form: str, mask: object, cu_seqlens: object) -> None:
    for name, given in (("mask", mask), ("cu_seqlens", cu_seqlens)):
        if given is not None:
            raise ValueError(f"x is {form}, which says itself what {name} says; leave {name} out")
