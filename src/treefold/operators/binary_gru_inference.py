"""Binary-GRU without a gradient to come: a pair is one row, and its two cells one multiplication.

Neighbouring rows a and b are one row [a b] of twice the width, so the sums of input and hidden side
that a cell takes are inside the multiplication, and nothing is kept. The two cells stand side by
side, first GRU(b, a) with hidden state a, then GRU(a, b) with hidden state b:

    [a b] times weights = [reset, reset, update, update, new, new, hidden new, hidden new]
"""

import torch
from torch import Tensor

from treefold.operators.workspace import Lease
from treefold.reduction import TreePlan

NUM_COLUMNS = 8
CHUNK = 1 << 15
"""Numbers of state per run of pairs, so that a run's projections stay in cache."""


def paired_weight(weight: Tensor) -> Tensor:
    """From the stacked weights `[6 channels, channels]` to `[2 channels, 8 channels]`.

    Both of new's come doubled, because tanh x = 2 σ(2x) - 1.
    """
    in_reset, in_update, in_new, reset, update, new = weight.chunk(6)
    none = torch.zeros_like(new)
    of_a = [reset, in_reset, update, in_update, none, 2 * in_new, 2 * new, none]
    of_b = [in_reset, reset, in_update, update, 2 * in_new, none, none, 2 * new]
    return torch.cat([torch.cat(of_a).t(), torch.cat(of_b).t()]).contiguous()


def paired_bias(bias: Tensor) -> Tensor:
    """From the stacked biases `[6 channels]` to `[8 channels]`."""
    in_reset, in_update, in_new, reset, update, new = bias.chunk(6)
    gates = [in_reset + reset] * 2 + [in_update + update] * 2
    return torch.cat([*gates, 2 * in_new, 2 * in_new, 2 * new, 2 * new])


def combine_pairs(pairs: Tensor, weight: Tensor, bias: Tensor, buffer: Tensor, out: Tensor) -> None:
    """Write a ⊕ b of every row [a b] of `pairs` into `out`; `buffer` is `[pairs, 8 channels]`."""
    width = pairs.shape[1]  # twice the channels: both cells
    torch.addmm(bias, pairs, weight, out=buffer)
    gates, new, hidden_new = buffer.split([2 * width, width, width], 1)
    reset, update = gates.sigmoid_().split(width, 1)
    new.addcmul_(reset, hidden_new).sigmoid_().mul_(2).sub_(1)
    first, second = new.lerp_(pairs, update).split(width // 2, 1)
    torch.lerp(first, second, 0.5, out=out)


def infer_nodes(leaves: Tensor, weight: Tensor, bias: Tensor, plan: TreePlan) -> Tensor:
    """Every node of the trees over `leaves` `[rows, channels]`, in the order of the plan."""
    channels = leaves.shape[1]
    weight, bias = paired_weight(weight), paired_bias(bias)
    nodes = leaves.new_empty(plan.num_applications, channels)
    most = max(1, min(CHUNK // channels, plan.num_applications))
    lease = Lease((most, NUM_COLUMNS * channels), leaves)
    pool, made = leaves, 0
    for level in plan.levels:
        take, out = level.take, nodes[made : made + level.num_pairs]
        rows = pool[: level.num_rows] if take is None else pool.index_select(0, take)
        pairs = rows[: 2 * level.num_pairs].view(level.num_pairs, 2 * channels)
        for low in range(0, level.num_pairs, most):
            run = slice(low, min(low + most, level.num_pairs))
            buffer = lease.tensor[: run.stop - low]
            combine_pairs(pairs[run], weight, bias, buffer, out[run])
        pool = torch.cat([out, rows[2 * level.num_pairs :]]) if level.num_waiting else out
        made += level.num_pairs
    return nodes
