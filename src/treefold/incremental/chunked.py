"""Training on sets larger than memory: the fold of a source of chunks, and its gradient.

Forward, every chunk is folded to a few blocks and dropped. Backward, the gradient goes through the
tree above the blocks, and then every chunk is read and folded again, on its own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

import torch
from torch import Tensor, nn

from treefold.algebra import Monoid, require_monoid
from treefold.fold import Groups
from treefold.incremental.checks import Integers, sets_of_rows
from treefold.incremental.counter import Cuts, carry, cut, total
from treefold.shapes import Float


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows, and the set they belong to, or the set of each; None where there is but one."""

    rows: Tensor
    sets: Integers | None = None


def fold_chunks(
    op: Monoid,
    chunks: Callable[[], Iterable[Tensor | Chunk]],
    num_sets: int = 1,
    encode: Callable[[Tensor], Tensor] | None = None,
) -> Float[Tensor, " sets *feature"]:
    """The fold of all chunks, one row per set, with gradients for the parameters of both modules.

    Both are modules: `op`, and `encode` where it learns. A gradient that would go elsewhere (to the
    rows, or to a network that a plain function calls) is refused: it would be lost silently.

    `chunks()` is called twice, once forward and once backward, and must give the same chunks both
    times: tensors of rows, or a `Chunk` where there are several sets. `encode` turns a chunk's rows
    into elements; its random draws (dropout) are the same both times.

    Value and gradient are those of `tree_reduce` with `plan_tree(sizes, "carry")`. Memory is that
    of one chunk with its graph, plus the blocks: per chunk and set in it at most 2 log2 of its
    rows, only one where chunks are equal powers of two. So read one set after the other, in chunks
    as large as memory allows.
    """
    require_monoid(op)
    if not callable(chunks):
        raise ValueError(
            f"chunks is a {type(chunks).__name__}, but they are read twice; give a function that "
            "begins again: lambda: x.split(1000)"
        )
    parameters = [
        parameter
        for module in (op, encode)
        if isinstance(module, nn.Module)
        for parameter in module.parameters()
        if parameter.requires_grad
    ]
    learned = tuple(parameters) if torch.is_grad_enabled() else None
    work = _Work(op, chunks, num_sets, encode, learned, int(torch.randint(2**62, ())))
    out: Tensor = _FoldChunks.apply(work, *parameters)  # type: ignore[no-untyped-call]
    return out


@dataclass(frozen=True, eq=False)
class _Work:
    op: Monoid
    chunks: Callable[[], Iterable[Tensor | Chunk]]
    num_sets: int
    encode: Callable[[Tensor], Tensor] | None
    learned: tuple[Tensor, ...] | None
    """Tensors that get a gradient; None without gradients."""
    seed: int

    def folded(self) -> Iterator[tuple[Cuts, Tensor]]:
        """Read the source once: the blocks of each chunk, and their states."""
        device = self._identity.device
        sizes = torch.zeros(self.num_sets, dtype=torch.int64, device=device)
        with self._same_randomness(-1), self._watched(0):
            source = iter(self.chunks())
        for number in count():
            with self._same_randomness(number), self._watched(number):
                chunk = next(source, None)
                if chunk is None:
                    return
                chunk = chunk if isinstance(chunk, Chunk) else Chunk(chunk)
                rows = chunk.rows if self.encode is None else self.encode(chunk.rows)
                if torch.is_grad_enabled():
                    self._require_learned(chunk.rows, rows)
            rows = rows if torch.is_grad_enabled() else rows.detach()
            index = sets_of_rows(chunk.sets, rows, self.num_sets, device)
            groups = Groups.from_index(index, self.num_sets)
            touched = groups.sizes.nonzero().squeeze(1)
            cuts = cut(sizes[touched], groups.sizes[touched])
            sizes = sizes + groups.sizes
            states = cast(Tensor, cuts.fold(self.op, rows[groups.order]))
            yield cuts._replace(owners=touched[cuts.owners]), states

    def _watched(self, number: int) -> AbstractContextManager[None]:
        """Record the graph of the first chunk in forward, to see where its gradient would go."""
        show = self.learned is not None and number == 0
        return torch.set_grad_enabled(show or torch.is_grad_enabled())

    def _require_learned(self, given: Tensor, rows: Tensor) -> None:
        learned = self.learned or ()
        advice = "detach them, or compute them from data in `encode`, an nn.Module"
        require_covered(given, learned, "the chunks have rows made", advice)
        advice = "give an nn.Module that holds it, such as encode=net, or detach it"
        require_covered(rows, learned, f"the encoder {self.encode!r} works", advice)
        if rows.shape[0]:
            advice = "give an operator that is an nn.Module and holds it, or detach it"
            made = cast(Tensor, self.op(rows[:1].detach(), rows[:1].detach()))
            require_covered(made, learned, f"the operator {self.op!r} works", advice)

    def above(self, cuts: Cuts, states: Tensor) -> Tensor:
        """The tree over the blocks of all chunks."""
        waiting = carry(self.op, cuts.blocks(states))
        return cast(Tensor, total(self.op, waiting, self.num_sets, states))

    def joined(self, folded: Iterable[tuple[Cuts, Tensor]]) -> tuple[Cuts, Tensor, list[int]]:
        """The blocks of all chunks together, and how many each has."""
        none = torch.zeros(0, dtype=torch.int64, device=self._identity.device)
        cuts, states, counts = [Cuts(none, none, none)], [], []
        for some_cuts, some_states in folded:
            cuts.append(some_cuts)
            states.append(some_states)
            counts.append(some_states.shape[0])
        if not states:
            states.append(self._identity.detach().unsqueeze(0)[:0])
        return Cuts(*map(torch.cat, zip(*cuts, strict=True))), torch.cat(states), counts

    @property
    def _identity(self) -> Tensor:
        if not isinstance(self.op.identity, Tensor):
            raise ValueError(
                f"the states of {self.op!r} are tuples; `fold_chunks` takes operators on tensors: "
                "stack them into one"
            )
        return self.op.identity

    def _same_randomness(self, number: int) -> AbstractContextManager[None]:
        return _seeded(self.seed + 1 + number, self._identity.device)


class _FoldChunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: _Work, *parameters: Tensor) -> Tensor:
        cuts, states, ctx.counts = work.joined(work.folded())
        ctx.work, ctx.cuts = work, cuts
        ctx.save_for_backward(states, *parameters)
        return work.above(cuts, states)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        states, *parameters = ctx.saved_tensors
        work: _Work = ctx.work
        with torch.enable_grad():
            states = states.detach().requires_grad_()
            out = work.above(ctx.cuts, states)
            to_states, *sums = _gradients(out, [states, *parameters], grad)
            parts = iter(to_states.split(ctx.counts))
            for number, (_, made) in enumerate(work.folded()):
                if number >= len(ctx.counts) or made.shape[0] != ctx.counts[number]:
                    raise ValueError(_CHANGED)
                found = _gradients(made, parameters, next(parts))
                sums = [old + new for old, new in zip(sums, found, strict=True)]
            if next(parts, None) is not None:
                raise ValueError(_CHANGED)
        return None, *sums


_CHANGED = (
    "the source gave other chunks the second time; `chunks` is to be a function that starts from "
    "the beginning and gives the same chunks whenever it is called"
)


def _gradients(out: Tensor, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
    if not out.requires_grad:
        return [torch.zeros_like(tensor) for tensor in inputs]
    found = torch.autograd.grad(out, inputs, grad, allow_unused=True)
    return [
        torch.zeros_like(tensor) if gradient is None else gradient
        for tensor, gradient in zip(inputs, found, strict=True)
    ]


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, torch's random numbers begin at `seed`; afterwards they continue as before."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        yield


def gradient_leaves(result: Tensor) -> Iterator[Tensor]:
    """The tensors that `result.backward()` would give a gradient to."""
    if result.grad_fn is None:
        if result.requires_grad:
            yield result
        return
    waiting, seen = [result.grad_fn], {result.grad_fn}
    while waiting:
        node = waiting.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)


def require_covered(result: Tensor, learned: Iterable[Tensor], what: str, advice: str) -> None:
    """Refuse a result whose gradient would also go to others than those that are `learned`."""
    known = {id(tensor) for tensor in learned}
    for leaf in gradient_leaves(result):
        if id(leaf) not in known:
            raise ValueError(
                f"{what} with a tensor of shape {tuple(leaf.shape)} that requires a gradient and "
                f"would get none; {advice}"
            )
