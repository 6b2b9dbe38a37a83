"""Folding a stream in bounded memory: chunks of any size, in any number of sets, one tree."""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

from treefold.algebra import (
    Monoid,
    State,
    draw_integers,
    map_state,
    require_elements,
    require_monoid,
    take,
    tensors_of,
)
from treefold.fold import Groups, num_rows
from treefold.incremental.checks import Integers, rows_like, sets_of_rows
from treefold.incremental.chunked import Chunk
from treefold.incremental.counter import Levels, carry, cut, merged, total
from treefold.incremental.saving import load_set, pack_counters, save_set, unpack_counters
from treefold.incremental.stability import BracketingStability, require_bracketings, stability_of
from treefold.incremental.tree_storage import bytes_of
from treefold.shapes import Int

MAX_PHASE = 1 << 20
KIND = "streaming-fold"


class StreamingFold:
    """The aggregates of `num_sets` sets whose elements are seen once, chunk by chunk.

    The tree is that of `plan_tree(sizes, "carry")` over the elements as they came, whatever the
    chunks. Kept are the O(log n) subtrees per set that still wait for a neighbour; a chunk is
    folded in pieces of `piece_rows` rows: a large chunk needs no more memory than itself.

    Each of `num_witnesses` is a second fold of the same elements over other trees, at the cost of
    the first: without one, `stability` cannot be measured, because the elements are gone. No
    gradients: see `fold_chunks` for those.
    """

    def __init__(
        self,
        op: Monoid,
        num_sets: int = 1,
        *,
        num_witnesses: int = 0,
        generator: torch.Generator | None = None,
        piece_rows: int = 1 << 16,
    ) -> None:
        if num_sets < 0 or num_witnesses < 0 or piece_rows < 1:
            raise ValueError(
                f"{num_sets} sets, {num_witnesses} witnesses and pieces of {piece_rows} rows; "
                "expected 0 or more, 0 or more, and 1 or more"
            )
        require_monoid(op)
        self.op, self.num_sets, self.piece_rows = op, num_sets, piece_rows
        self._generator = generator
        self._like = map_state(lambda element: element.unsqueeze(0)[:0], op.identity)
        self._sizes = torch.zeros(num_sets, dtype=torch.int64)
        self._waiting: Levels = {}
        # A witness counts as if its sets had begun earlier: its blocks have other boundaries.
        shape = (num_witnesses, num_sets)
        self._phases = 1 + draw_integers(MAX_PHASE, shape, self._sizes, generator)
        self._witnesses: list[Levels] = [{} for _ in range(num_witnesses)]

    @property
    def sizes(self) -> Int[Tensor, " sets"]:
        """The number of elements that each set has had."""
        return self._sizes.clone()

    @property
    def num_states(self) -> int:
        """The number of states kept, in all sets, those of witnesses included."""
        return sum(
            blocks.sets.numel()
            for counter in (self._waiting, *self._witnesses)
            for blocks in counter.values()
        )

    @property
    def num_bytes(self) -> int:
        """The memory of all that is kept."""
        kept = [self._sizes, self._phases]
        for counter in (self._waiting, *self._witnesses):
            for blocks in counter.values():
                kept += [blocks.sets, blocks.places, *tensors_of(blocks.states)]
        return bytes_of(kept)

    @torch.no_grad()
    def feed(self, rows: State, sets: Integers | None = None) -> None:
        """Add a chunk: rows `[n, *feature]` of one set, or with the set of each.

        Where there are several sets, `sets` must be given.

        If the operator raises an error, nothing is added.
        """
        self._begin(rows)
        rows = rows_like(self._like, rows)
        index = sets_of_rows(sets, rows, self.num_sets, self._sizes.device)
        groups = Groups.from_index(index, self.num_sets)
        before = self._waiting, list(self._witnesses), self._sizes.clone()
        try:
            for first in range(0, num_rows(rows), self.piece_rows):
                piece = slice(first, first + self.piece_rows)
                self._take_in(rows, groups.order[piece], groups.index[piece])
        except BaseException:
            self._waiting, self._witnesses, self._sizes = before
            raise

    @torch.no_grad()
    def value(self) -> State:
        """The aggregate of each set so far, `[sets, *feature]`; empty ones give the identity."""
        return self._total(self._waiting)

    def stability(self, decode: Callable[..., State] | None = None) -> BracketingStability:
        """Measure how far the witnesses, folds in other merge orders, are from `value()`."""
        if not self._witnesses:
            raise ValueError(
                "there are no witnesses, and the elements are gone; make it with num_witnesses=4 "
                "(each costs as much as the fold itself)"
            )
        others = [self._total(witness) for witness in self._witnesses]
        return stability_of(self.op, self.value(), others, self._sizes, decode)

    def save(self, folder: Path | str) -> None:
        """Write the state to a folder, to resume the stream later."""
        tensors, state = pack_counters([self._waiting, *self._witnesses], self._like)
        tensors |= {"sizes": self._sizes, "phases": self._phases}
        state |= {"piece_rows": self.piece_rows}
        save_set(folder, KIND, [self.op], tensors, state)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        op: Monoid,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> "StreamingFold":
        """Load what was saved; `op` must be the same as then. Witnesses draw from `generator`.

        Its tensors are on `device`, or where the operator's identity is. A restored stream gives
        bit for bit what it would have given without the stop.
        """
        saved = load_set(folder, KIND, [op], device)
        sizes, phases = saved.tensors["sizes"], saved.tensors["phases"]
        stream = cls(op, len(sizes), generator=generator, piece_rows=int(saved.state["piece_rows"]))
        stream._sizes, stream._phases = sizes, phases
        (stream._waiting, *stream._witnesses), stream._like = unpack_counters(saved)
        return stream

    def _begin(self, rows: State) -> None:
        """Take the shape of features, and the device, from the first rows."""
        if not bool(self._sizes.any()):
            require_elements(self.op, rows)
            self._like = map_state(lambda part: part.detach()[:0], rows)
            device = tensors_of(rows)[0].device
            self._sizes, self._phases = self._sizes.to(device), self._phases.to(device)

    def _take_in(self, rows: State, order: Tensor, index: Tensor) -> None:
        """Add the rows at `order`, which belong to the sets `index`, in order of sets."""
        touched, counts = torch.unique_consecutive(index, return_counts=True)
        starts = self._sizes[touched]
        self._waiting = self._added(self._waiting, take(rows, order), touched, starts, counts)
        for number, witness in enumerate(self._witnesses):
            shuffled = order[Groups.from_sizes(counts).shuffled(self._generator).order]
            begins = starts + self._phases[number, touched]
            self._witnesses[number] = self._added(
                witness, take(rows, shuffled), touched, begins, counts
            )
        self._sizes[touched] += counts

    def _added(
        self, counter: Levels, rows: State, sets: Tensor, starts: Tensor, counts: Tensor
    ) -> Levels:
        cuts = cut(starts, counts)
        states = cuts.fold(self.op, rows)
        new = cuts._replace(owners=sets[cuts.owners]).blocks(states)
        return carry(self.op, merged(counter, new))

    @torch.no_grad()
    def _total(self, counter: Levels) -> State:
        return map_state(torch.clone, total(self.op, counter, self.num_sets, self._like))


@torch.no_grad()
def chunks_stability(
    op: Monoid,
    chunks: Callable[[], Iterable[Tensor | Chunk]],
    num_sets: int = 1,
    encode: Callable[[Tensor], Tensor] | None = None,
    num_bracketings: int = 4,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingStability:
    """Measure how far other merge orders move the answer of `fold_chunks`, with its arguments.

    Reads the source once and folds it `num_bracketings` + 1 times meanwhile, as a `StreamingFold`
    with witnesses, in the memory of one chunk.
    """
    require_bracketings(num_bracketings)
    fold = StreamingFold(op, num_sets, num_witnesses=num_bracketings, generator=generator)
    for chunk in chunks():
        some = chunk if isinstance(chunk, Chunk) else Chunk(chunk)
        fold.feed(some.rows if encode is None else encode(some.rows), some.sets)
    return fold.stability(decode)
