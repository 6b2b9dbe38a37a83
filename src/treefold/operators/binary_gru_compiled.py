"""Binary-GRU's loops, compiled, on as many threads as torch has; for states in float32 on CPUs."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from treefold.fold import TreePlan
from treefold.operators.binary_gru_work import Parameters, Work
from treefold.operators.compiled_threads import max_parts
from treefold.operators.kernels.binary_gru_ends import Cell, Ends, Gradients
from treefold.operators.kernels.binary_gru_fold import fold, fold_back
from treefold.operators.kernels.binary_gru_rooms import Size
from treefold.operators.kernels.binary_gru_runs import MIN_NUMBERS, Tree
from treefold.operators.kernels.compiling import (
    HALF,
    SINGLE,
    name_of_width,
    tells_if_slow,
    width_of,
)
from treefold.operators.kernels.halves import can_multiply_halves
from treefold.operators.workspace import Lease

RUNS_PER_CHUNK = 16
"""With one thread: the projections of a run are then 400 kB."""


class _Memory(NamedTuple):
    """What the way back needs of the way forward."""

    ends: Ends
    tree: Tree
    shown: np.ndarray
    """The states, if somebody wants the nodes: then their memory is not ours to use again."""
    kept: Lease
    """All else that `Kept` has."""


class CompiledLoops:
    """What `TorchLoops` does, with gates in one pass over memory and no calls in between."""

    def can_multiply(self, precision: torch.dtype, channels: int) -> bool:
        """In float32, and where the machine has instructions for it in bfloat16."""
        if precision == torch.bfloat16:
            return channels % 2 == 0 and can_multiply_halves()
        return precision == torch.float32

    def runs_per_chunk(self, keeps: bool) -> int:
        """So many that a thread's share of a run's projections stays in its core's cache."""
        return max(1, RUNS_PER_CHUNK // max_parts())

    def forward(
        self, work: Work, x: Tensor, parameters: Parameters, groups: Tensor
    ) -> tuple[Tensor | None, _Memory]:
        """One compiled call from rows to groups."""
        size = _size(work, x)
        shown = x.new_empty(size.num_states if work.shows_nodes else 0, *work.row_shape)
        kept, room = Lease((size.num_kept,), x), Lease((size.num_forward,), x)
        memory = _Memory(*_ends_and_tree(work), shown.numpy(), kept)
        with tells_if_slow(_name(work)):
            fold(
                x.numpy(),
                Cell(*[parameter.contiguous().numpy() for parameter in parameters]),
                *(memory.ends, memory.tree, memory.shown, kept.tensor.numpy()),
                *(groups.numpy(), room.tensor.numpy(), size, _threads_together(work, size)),
            )
        return shown[work.plan.num_rows :] if work.shows_nodes else None, memory

    def backward(
        self,
        work: Work,
        x: Tensor,
        memory: _Memory,
        grad_groups: Tensor | None,
        grad_nodes: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """One compiled call from the gradients of groups and nodes to all others."""
        if not self.can_multiply(work.precision, work.row_shape[1]):
            raise RuntimeError(
                "oneDNN was switched off between a fold in bfloat16 and its gradient; switch it "
                "off before the fold (torch.backends.mkldnn.enabled), or not at all"
            )
        size, none = _size(work, x), memory.shown[:0]
        room = Lease((size.num_backward,), x)
        grad_x, grad_weight = torch.empty_like(x), x.new_empty(size.weight_shape)
        grad_bias, grad_identity = x.new_empty(2, 3 * size.channels), x.new_empty(size.channels)
        grads = (grad_x, grad_weight, grad_bias, grad_identity)
        with tells_if_slow(f"{_name(work)}, gradients"):
            fold_back(
                *(x.numpy(), memory.ends, memory.tree, memory.shown, memory.kept.tensor.numpy()),
                none if grad_groups is None else grad_groups.numpy(),
                none if grad_nodes is None else grad_nodes.numpy(),
                Gradients(*[grad.numpy() for grad in grads]),
                *(room.tensor.numpy(), size, _threads_together(work, size)),
            )
        if work.precision == torch.bfloat16:  # it comes transposed
            grad_weight = grad_weight.view(size.weight_shape[::-1]).t().contiguous()
        return grad_x, *grad_weight.chunk(2), *grad_bias.unbind(), grad_identity


def _size(work: Work, x: Tensor) -> Size:
    """For as many threads as are worth it."""
    num_rows, (inner, channels) = work.rows_per_run, work.row_shape
    numbers = max(1, inner * channels)
    shared = not work.is_small and num_rows * numbers >= 4 * MIN_NUMBERS
    num_parts = max_parts() if shared else 1
    # A part has its share of a run, or all of one that is too small to be cut.
    share = 2 * -(-num_rows // (2 * num_parts))
    return Size(
        num_parts,
        rows_per_run=num_rows,
        rows_per_part=min(num_rows, max(share, 4 * MIN_NUMBERS // numbers + 2)),
        table_rows=len(x) if work.shared else 0,
        num_states=work.num_states,
        num_met=2 * work.plan.num_applications if work.keeps else 0,
        shows_nodes=work.shows_nodes,
        precision=HALF if work.precision == torch.bfloat16 else SINGLE,
        inner=inner,
        channels=channels,
        width=width_of(channels),
    )


def _name(work: Work) -> str:
    """Which loops these are, for a reader."""
    name = f"Binary-GRU, {name_of_width(work.row_shape[1])}"
    return f"{name}, bfloat16" if work.precision == torch.bfloat16 else name


def _threads_together(work: Work, size: Size) -> int:
    """How many threads share a multiplication: one in small work, or if each part has its own."""
    return 1 if work.is_small or size.num_parts > 1 else torch.get_num_threads()


def _ends_and_tree(work: Work) -> tuple[Ends, Tree]:
    leaves, known = work.leaves.numpy(), _of_plans.setdefault(work.plan, {})
    if work.pairs_per_run not in known:
        known[work.pairs_per_run] = _arrays(work)
    runs, children, places = known[work.pairs_per_run]
    table_rows = leaves if work.shared else leaves[:0]
    return Ends(leaves, places, work.is_permutation), Tree(runs, children, table_rows)


_of_plans: WeakKeyDictionary[TreePlan, dict[int, tuple[np.ndarray, ...]]] = WeakKeyDictionary()
"""The arrays of plans that are in use, by the number of pairs per run."""


def _arrays(work: Work) -> tuple[np.ndarray, ...]:
    """The runs of a plan, its children and its groups' places."""
    runs = [(first, count, -1 if start is None else start) for first, count, start in work.runs]
    table = np.array(runs, np.int64).reshape(-1, 3)
    return table, work.plan.children.numpy(), work.plan.tables.groups.numpy()
