"""Sets given to an aggregator in another way than PyG's: padded, nested, packed, or in a list."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from treefold.aggr.pyg_groups import groups_of
from treefold.aggr.static import StaticGroups, is_static, static_groups
from treefold.fold import Groups, pack_sets, pack_weight, require_mask


class SetInput(NamedTuple):
    """The rows of all sets, along the first axis, and who sits together."""

    rows: Tensor
    groups: Groups | StaticGroups
    weight: Tensor | None
    num_sets: int
    """The number of groups that are sets. The others hold padding, where it cannot be left out."""


def set_input(
    x: Any,
    mask: Tensor | None,
    cu_seqlens: Tensor | None,
    weight: Any,
    max_num_elements: int | None,
    **pyg_words: Any,
) -> SetInput:
    """Rows and groups of sets, which nothing else may describe; or a ValueError."""
    if isinstance(x, Tensor) and mask is not None and is_static(x) and cu_seqlens is None:
        _refuse(pyg_words)
        return _with_padding_apart(x, mask, weight, max_num_elements)
    packed = pack_sets(x, mask, cu_seqlens)
    _refuse(pyg_words)
    try:
        groups = groups_of(packed.rows, None, packed.offsets, None, 0, max_num_elements)
    except ValueError as error:
        name = "ptr" if cu_seqlens is None else "cu_seqlens"
        raise ValueError(str(error).replace("ptr", name)) from None
    weights = None if weight is None else pack_weight(weight, x, mask, packed)
    return SetInput(packed.rows, groups, weights, groups.num_groups)


def _refuse(pyg_words: dict[str, Any]) -> None:
    for word, given in pyg_words.items():
        if given not in (None, -2) if word == "dim" else given is not None:
            raise ValueError(
                f"{word} is given, but a list of sets, a nested tensor, mask and cu_seqlens say "
                f"themselves who sits together; leave {word} out"
            )


def _with_padding_apart(
    x: Tensor, mask: Tensor, weight: Tensor | None, max_num_elements: int | None
) -> SetInput:
    """Nothing depends on what the mask holds: each padding element is a group behind all sets.

    There it meets nothing. It is zero, because it may be NaN, whose gradient is no zero.
    """
    require_mask(x, mask)
    sets, places = mask.shape
    own = torch.arange(sets, device=x.device)[:, None]
    alone = torch.arange(sets * places, device=x.device).view(sets, places)
    index = torch.where(mask, own, sets + alone).flatten()
    inside = mask.reshape(sets, places, *(1 for _ in x.shape[2:]))
    rows = torch.where(inside, x, torch.zeros_like(x)).flatten(0, 1)
    groups = static_groups(index, None, sets + sets * places, sets * places, max_num_elements, rows)
    if weight is not None:
        weight = torch.where(mask, weight, torch.zeros_like(weight)).flatten()
    return SetInput(rows, groups, weight, sets)
