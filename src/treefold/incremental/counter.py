"""A binary counter of perfect subtrees: a tree that grows from the left and keeps only its edge.

Block `place` of level l is the fold of the elements from place 2^l to (place + 1) 2^l - 1 of a set.
Like a carry in an addition, an even block and the odd one behind it make a block one level up. What
is left are the blocks that wait for their neighbour, at most one per level, as in 13 = 8 + 4 + 1.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from treefold.algebra import Monoid, Partial, State, map_state, take
from treefold.fold import plan_tree, tree_reduce
from treefold.shapes import Bool, Int


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of one level: of which set, at which place, and folded to what."""

    sets: Int[Tensor, " n"]
    places: Int[Tensor, " n"]
    states: State

    def __getitem__(self, index: Tensor) -> "Blocks":
        return Blocks(self.sets[index], self.places[index], take(self.states, index))

    def in_order(self) -> "Blocks":
        """Set by set, from left to right."""
        by_place = self.places.argsort(stable=True)
        return self[by_place[self.sets[by_place].argsort(stable=True)]]

    def partial(self, num_sets: int) -> Partial:
        """One row per set; a set without a block here is empty, and none has two."""
        nothing = Partial.nothing(num_sets, self.states)
        return Partial(
            map_state(
                lambda blank, rows: blank.index_copy(0, self.sets, rows),
                nothing.states,
                self.states,
            ),
            nothing.is_empty.index_fill(0, self.sets, False),
        )


Levels: TypeAlias = dict[int, Blocks]


def carry(op: Monoid, blocks: Levels) -> Levels:
    """Let neighbours meet, level by level, until every block waits for one that is not there.

    An odd block without a left neighbour stands at the left edge of its set and rises alone.
    """
    blocks, waiting = dict(blocks), {}
    while blocks:
        level = min(blocks)
        here = blocks.pop(level).in_order()
        is_left = _has_right_neighbour(here)
        is_right = is_left.roll(1)  # the last one is never a left neighbour
        is_even = here.places % 2 == 0
        rests = here[is_even & ~is_left]
        if rests.sets.numel():
            waiting[level] = rests
        risen = []
        if bool(is_left.any()):
            left, right = here[is_left], here[is_right]
            risen.append(Blocks(left.sets, left.places >> 1, op(left.states, right.states)))
        edge = here[~is_even & ~is_right]
        if edge.sets.numel():
            risen.append(Blocks(edge.sets, edge.places >> 1, edge.states))
        if risen:
            above = blocks.get(level + 1)
            blocks[level + 1] = joined(risen if above is None else [above, *risen])
    return waiting


def merged(first: Levels, second: Levels) -> Levels:
    """The blocks of both, by level."""
    both = {**first, **second}
    for level in first.keys() & second.keys():
        both[level] = joined([first[level], second[level]])
    return both


def joined(parts: list[Blocks]) -> Blocks:
    """Blocks of one level, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Blocks(
        torch.cat([part.sets for part in parts]),
        torch.cat([part.places for part in parts]),
        map_state(lambda *rows: torch.cat(rows), *(part.states for part in parts)),
    )


def total(op: Monoid, waiting: Levels, num_sets: int, like: State) -> State:
    """The fold of all that waits, from the smallest block to the largest: one row per set.

    This is the tree of `plan_tree(sizes, "carry")`; sets without blocks give the identity. `like`
    has rows of the right kind.
    """
    out = Partial.nothing(num_sets, like)
    for level in sorted(waiting):
        out = waiting[level].partial(num_sets).merged(out, op)
    return out.value(op)


class Cuts(NamedTuple):
    """Blocks without their states, set by set, from left to right."""

    owners: Int[Tensor, " n"]
    """Which set each belongs to: its number among those that were cut."""
    starts: Int[Tensor, " n"]
    levels: Int[Tensor, " n"]

    def fold(self, op: Monoid, rows: State) -> State:
        """The states of the blocks, from `rows` that lie in this order."""
        # Over a power of two the balanced tree is the perfect one.
        return tree_reduce(op, rows, plan_tree(1 << self.levels))

    def blocks(self, states: State) -> Levels:
        """The blocks with their states, by level."""
        found = {}
        for level in self.levels.unique().tolist():
            here = (self.levels == level).nonzero().squeeze(1)
            found[level] = Blocks(self.owners[here], self.starts[here] >> level, take(states, here))
        return found


def cut(starts: Int[Tensor, " sets"], sizes: Int[Tensor, " sets"]) -> Cuts:
    """Cut the elements of each set from `starts` on, `sizes` of them, into as few blocks as can be.

    Blocks grow from the left edge, then shrink to the right one, as in 3..17 = 1 + 4 + 8 + 2.
    """
    here, ends = starts, starts + sizes
    found: list[Cuts] = []
    top = int(sizes.max()).bit_length() if sizes.numel() else 0
    for level in (*range(top), *reversed(range(top))):
        fits = here + (1 << level) <= ends
        if len(found) < top:
            fits &= (here >> level) & 1 == 1
        owners = fits.nonzero().squeeze(1)
        found.append(Cuts(owners, here[owners], torch.full_like(owners, level)))
        here = here + (fits << level)
    if not found:
        none = starts.new_zeros(0)
        return Cuts(none, none, none)
    owners, begins, levels = (torch.cat(parts) for parts in zip(*found, strict=True))
    order = owners.argsort(stable=True)
    return Cuts(owners[order], begins[order], levels[order])


def _has_right_neighbour(blocks: Blocks) -> Bool[Tensor, " n"]:
    """Whether the next block is the odd one that belongs to this even one."""
    sets, places = blocks.sets, blocks.places
    found = torch.zeros_like(places, dtype=torch.bool)
    next_to = (sets[1:] == sets[:-1]) & (places[1:] == places[:-1] + 1)
    found[:-1] = next_to & (places[:-1] % 2 == 0)
    return found
