"""A recurrent cell along ragged groups as an ONNX GRU or LSTM over groups padded to one length."""

from typing import Any

import torch
from torch import Tensor

from treefold.aggr.static import StaticGroups
from treefold.algebra import tensors_of
from treefold.fold import stable_order
from treefold.operators import RecurrentCell
from treefold.shapes import Int

_GATES = {"gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""The order in which ONNX wants torch's gates: (r, z, n) and (i, f, c, o)."""


def onnx_chain(
    kind: str, cell: RecurrentCell, x: Tensor, groups: StaticGroups, permutations: int
) -> Tensor:
    """The output of each group's last state. What is padded is left out by `sequence_lens`."""
    if permutations > 1:
        raise ValueError(
            f"permutations is {permutations}; expected 1 in ONNX, which runs along one order: "
            "average the outputs of several exports"
        )
    if x.dim() != 2:
        raise ValueError(
            f"rows have shape {tuple(x.shape)}; expected [n, {x.shape[-1]}] in ONNX, whose "
            f"{kind.upper()} has one feature axis: flatten the others into groups"
        )
    channels = x.shape[-1]
    padded, sizes = _padded(x, groups)
    starts = [start.expand(1, groups.num_groups, channels) for start in tensors_of(cell.initial)]
    weight_ih, weight_hh, bias_ih, bias_hh = (
        _reordered(part, kind, channels)
        for part in cell.rnn.all_weights[0]  # type: ignore[union-attr, index]
    )
    attributes: dict[str, Any] = {"hidden_size": channels}
    if kind == "gru":
        attributes["linear_before_reset"] = 1
    outputs = torch.onnx.ops.symbolic_multi_out(
        kind.upper(),
        (
            padded,
            weight_ih.unsqueeze(0),
            weight_hh.unsqueeze(0),
            torch.cat([bias_ih, bias_hh]).unsqueeze(0),
            sizes.to(torch.int32),
            *starts,
        ),
        attributes,
        dtypes=(x.dtype, x.dtype, x.dtype)[: 1 + len(starts)],
        shapes=(
            (padded.shape[0], 1, groups.num_groups, channels),
            *((1, groups.num_groups, channels) for _ in starts),
        ),
        version=14,
    )
    # ONNX leaves open what a sequence of length zero gives.
    return torch.where(sizes.unsqueeze(1) > 0, outputs[1][0], starts[0][0])


def _padded(x: Tensor, groups: StaticGroups) -> tuple[Tensor, Int[Tensor, " groups"]]:
    """Rows as [places, groups, channels], and the sizes of the groups."""
    index, num_groups = groups.index, groups.num_groups
    order = stable_order(index)
    sizes = torch.zeros(num_groups, dtype=torch.int64).scatter_add(0, index, torch.ones_like(index))
    starts = sizes.cumsum(0) - sizes
    of_row = index[order]
    place = torch.arange(index.shape[0]) - starts[of_row]
    blank = x.new_zeros(groups.max_size * num_groups, x.shape[-1])
    padded = blank.index_copy(0, place * num_groups + of_row, x[order])
    return padded.view(groups.max_size, num_groups, x.shape[-1]), sizes


def _reordered(part: Tensor, kind: str, channels: int) -> Tensor:
    gates = part.split(channels)
    return torch.cat([gates[number] for number in _GATES[kind]])
