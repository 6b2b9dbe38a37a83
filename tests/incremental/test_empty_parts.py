"""No fold, in parts or whole, puts e through the operator: e is what an empty group gives, alone.

The operator here refuses e as an argument, and computes each number by itself, so that bits tell.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from trees import BRACKETINGS, seeded

from treefold import LCMAggregation
from treefold.algebra import Partial
from treefold.distributed import plan_shards, sharded_reduce
from treefold.distributed.budget import plan_chunks
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import Chunk, DynamicAggregation, FoldTree, StreamingFold, fold_chunks

CHANNELS = 3
SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=6)
some = settings(deadline=None, max_examples=40)


class Wary(nn.Module):
    """Neither associative nor commutative, with a learned e that is far from an identity."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.9, 0.7, 1.1]))
        self.identity = nn.Parameter(torch.full((CHANNELS,), 7.0))

    def forward(self, a, b):
        for argument in (a, b):
            assert not argument.eq(self.identity).all(-1).any(), "e was put through the operator"
        return self.scale * a + 1.25 * b - a * b / 8


def drawn(count):
    return torch.randn(count, CHANNELS, generator=seeded())


def whole(op, x, sizes, bracketing="carry"):
    return tree_reduce(op, x, plan_tree(torch.tensor(sizes), bracketing)).detach()


def parts_of(sizes, which):
    """Each row's set, and the rows of each part: those where `which` has its number."""
    sets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return sets, [torch.tensor(which[: len(sets)]).eq(part).nonzero().squeeze(1) for part in (0, 1)]


def test_the_operator_notices_e():
    op = Wary()
    with pytest.raises(AssertionError, match="e was put through"):
        op(drawn(2), op.identity.expand(2, CHANNELS))


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_folds_give_e_for_empty_groups_and_single_rows_as_they_are(sizes, bracketing):
    op, x = Wary(), drawn(sum(sizes))
    out = tree_reduce(op, x, plan_tree(torch.tensor(sizes), bracketing, seeded()))
    for row, rows in zip(out, x.split(sizes), strict=True):
        if len(rows) < 2:
            assert row.equal(rows[0] if len(rows) else op.identity)


@some
@given(SIZES, st.lists(st.integers(0, 1), min_size=30, max_size=30))
def test_aggregates_of_two_streams_merge_as_if_the_empty_ones_were_not_there(sizes, which):
    op, x = Wary(), drawn(sum(sizes))
    sets, parts = parts_of(sizes, which)
    partial, values = [], []
    for rows in parts:
        stream = StreamingFold(op, len(sizes), num_witnesses=1)
        stream.feed(x[rows], sets[rows])
        partial.append(Partial(stream.value(), stream.sizes == 0))
        values.append(whole(op, x[rows], torch.bincount(sets[rows], minlength=len(sizes)).tolist()))
    merged = partial[0].merged(partial[1], op).value(op)
    for number in range(len(sizes)):
        held = [v[number] for v, p in zip(values, partial, strict=True) if not p.is_empty[number]]
        if len(held) == 2:
            assert merged[number].equal(op(held[0][None], held[1][None])[0])
        else:
            assert merged[number].equal(held[0] if held else op.identity)


@some
@given(SIZES, st.integers(1, 7))
def test_streams_and_chunks_give_e_for_empty_sets_alone(sizes, size):
    op, x = Wary(), drawn(sum(sizes))
    sets = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    stream = StreamingFold(op, len(sizes))
    for rows, index in zip(x.split(size), sets.split(size), strict=True):
        stream.feed(rows, index)
        stream.feed(rows[:0], index[:0])
    assert stream.value().equal(whole(op, x, sizes))

    def chunks():
        pairs = zip(x.split(size), sets.split(size), strict=True)
        return (each for pair in pairs for each in (Chunk(*pair), Chunk(x[:0], sets[:0])))

    out = fold_chunks(op, chunks, len(sizes))
    assert out.equal(whole(op, x, sizes))
    out.sum().backward()
    expected = torch.full((CHANNELS,), float(sizes.count(0)))
    assert op.identity.grad.equal(expected)


@some
@given(SIZES)
def test_sets_that_empty_and_fill_again_hold_nothing_of_e(sizes):
    op, x = Wary(), drawn(sum(sizes))
    tree = FoldTree(op, x, Groups.from_sizes(sizes))
    tree.remove(tree.handles())
    assert tree.value().equal(op.identity.expand(len(sizes), CHANNELS))
    for number in range(len(sizes)):
        tree.insert(x[:1] if len(x) else drawn(1), number)
        assert tree.value([number]).equal(x[:1] if len(x) else drawn(1))
        assert tree.leave_one_out()[-1].equal(op.identity)
    new = tree.add_sets(2)
    tree.insert(drawn(3), int(new[1]))
    assert tree.value(new[:1]).equal(op.identity[None])
    assert tree.value(new[1:]).equal(whole(op, drawn(3), [3]))
    assert tree.leave_one_out().shape == (len(sizes) + 3, CHANNELS)


def test_nodes_whose_edges_go_and_come_gather_nothing_of_e():
    op, x = Wary(), drawn(4)
    layer = LCMAggregation(CHANNELS, op, eval_bracketing="carry").eval()
    graph = DynamicAggregation(layer, x, torch.tensor([[0, 1, 2], [3, 3, 1]]))
    graph.remove_edges(torch.tensor([[0, 1], [3, 3]]))
    assert graph.value([3]).equal(op.identity[None])
    graph.add_edges(torch.tensor([[2], [3]]))
    assert graph.value([3]).equal(x[2:3])
    assert graph.value([0, 1]).equal(torch.stack([op.identity, x[2]]))


@some
@given(SIZES, st.lists(st.integers(0, 1), min_size=30, max_size=30))
@pytest.mark.parametrize("bracketing", ["balanced", "by-shard"])
def test_a_shard_without_rows_of_a_group_adds_nothing_to_it(bracketing, sizes, which):
    op, x = Wary(), drawn(sum(sizes))
    sets, parts = parts_of(sizes, which)
    counts = torch.stack([torch.bincount(sets[rows], minlength=len(sizes)) for rows in parts])
    plans = [plan_shards(counts, shard, bracketing) for shard in (0, 1)]
    sent = [tree_reduce(op, x[rows], plan.here) for rows, plan in zip(parts, plans, strict=True)]
    assert [len(each) for each in sent] == list(plans[0].parts_per_shard)
    out = tree_reduce(op, torch.cat(sent)[plans[0].by_group], plans[0].join)
    for number in range(len(sizes)):
        here = [x[rows][sets[rows] == number] for rows in parts]
        if not all(len(rows) for rows in here):  # on one shard, or on none
            alone = whole(op, torch.cat(here), [sizes[number]], "balanced")[0]
            assert out[number].equal(alone)


@some
@given(SIZES)
def test_one_process_and_folds_in_chunks_give_e_for_empty_groups_alone(sizes):
    op, x, groups = Wary(), drawn(sum(sizes)), Groups.from_sizes(sizes)
    expected = whole(op, x, sizes, "balanced")
    assert sharded_reduce(op, x, groups).equal(expected)
    assert plan_chunks(groups, 2).fold(op, x, torch.arange(len(x))).equal(expected)


def test_a_block_of_a_table_without_good_rows_has_no_state_to_merge():
    pytest.importorskip("ray")
    import pyarrow as pa  # noqa: PLC0415

    from treefold.distributed import MonoidAggregate  # noqa: PLC0415
    from treefold.distributed.model_fold import ModelFold  # noqa: PLC0415

    op, x = Wary(), drawn(2)
    fold = MonoidAggregate(ModelFold(op, x, nn.Identity()), on="x", skip_nulls=True)
    assert fold.aggregate_block(pa.table({"x": pa.array([None, None], pa.int64())})) is None
    held = fold.aggregate_block(pa.table({"x": pa.array([None, 1], pa.int64())}))
    assert torch.tensor(fold.finalize(held)).equal(x[1])
