"""A fold tree equals the fold of its elements, whatever comes and goes."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from incremental.operators_for_tests import Counting, Scramble, integers
from incremental.scratch import from_scratch
from torch import nn
from trees import normal, seeded

from treefold.algebra import Max, Mean, Sum, TopK, Variance
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import FoldTree
from treefold.operators import BinaryGRU

NUM_SETS = 4


class LivingSets(RuleBasedStateMachine):
    """Elements come and go in four sets, beside a dictionary that says what should be there."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)  # a step is repeated alike
        rows, index = integers(11, 2), torch.randint(0, NUM_SETS, (11,))
        self.tree = FoldTree(Scramble(), rows, Groups.from_index(index, NUM_SETS))
        self.expected = {
            handle: (row.tolist(), group)
            for handle, (row, group) in enumerate(zip(rows, index.tolist(), strict=True))
        }

    def some(self, data, most=12):
        handles = sorted(self.expected)
        return data.draw(st.lists(st.sampled_from(handles), unique=True, max_size=most))

    @rule(count=st.integers(0, 9), skewed=st.booleans())
    def insert(self, count, skewed):
        sets = torch.randint(0, 1 if skewed else NUM_SETS, (count,))
        rows = integers(count, 2)
        handles = self.tree.insert(rows, sets).tolist()
        assert not set(handles) & set(self.expected)
        assert len(set(handles)) == count
        self.expected |= {
            handle: (row.tolist(), group)
            for handle, row, group in zip(handles, rows, sets.tolist(), strict=True)
        }

    @rule(data=st.data())
    def remove(self, data):
        if self.expected:
            gone = self.some(data)
            self.tree.remove(gone)
            for handle in gone:
                del self.expected[handle]

    @rule(data=st.data())
    def replace(self, data):
        if self.expected:
            handles = self.some(data)
            rows = integers(len(handles), 2)
            self.tree.replace(handles, rows)
            for handle, row in zip(handles, rows, strict=True):
                self.expected[handle] = (row.tolist(), self.expected[handle][1])

    @rule()
    def remove_nearly_all(self):
        gone = sorted(self.expected)[2:]
        self.tree.remove(gone)
        for handle in gone:
            del self.expected[handle]

    @invariant()
    def aggregates_are_those_of_the_carry_tree(self):
        assert self.tree.value().equal(from_scratch(self.tree))

    @invariant()
    def every_handle_names_its_element(self):
        groups = torch.repeat_interleave(self.tree.sizes).tolist()
        handles = self.tree.handles().tolist()
        rows = self.tree.rows().tolist()
        found = {h: (r, g) for h, r, g in zip(handles, rows, groups, strict=True)}
        assert found == self.expected
        assert len(handles) == len(found)


def test_whatever_comes_and_goes_the_sets_are_what_they_should_be():
    run_state_machine_as_test(
        LivingSets, settings=settings(deadline=None, max_examples=10, stateful_step_count=30)
    )


def test_a_set_with_room_keeps_it_while_another_outgrows_its_own():
    tree = FoldTree(Scramble(), integers(18, 2), Groups.from_sizes([16, 2]))
    tree.remove(torch.arange(3, 16))
    tree.insert(integers(17, 2), [0] * 8 + [1] * 9)
    assert tree.value().equal(from_scratch(tree))


def test_an_update_touches_no_other_set():
    rows = normal(20, 3)
    tree = FoldTree(BinaryGRU(3).double(), rows, Groups.from_sizes([7, 6, 7]))
    before = tree.value()
    tree.replace(8, normal(1, 3, seed=1))
    after = tree.value()
    assert after[[0, 2]].equal(before[[0, 2]])
    assert not after[1].equal(before[1])
    assert tree.value([1]).equal(after[1:2])


@pytest.mark.parametrize("op", [Sum(), Max(), Mean(), Variance(), TopK(3)], ids=str)
def test_exact_monoids_live_too(op):
    x = normal(37, 2)
    tree = FoldTree(op, op.encode(x), Groups.from_sizes([30, 7]))
    tree.remove(torch.arange(0, 30, 2))
    tree.insert(op.encode(normal(4, 2, seed=1)), [1, 1, 0, 1])
    index = torch.repeat_interleave(tree.sizes)
    kept = [x[torch.arange(1, 30, 2)], x[30:]]
    new = normal(4, 2, seed=1)
    sets = [torch.cat([kept[0], new[[2]]]), torch.cat([kept[1], new[[0, 1, 3]]])]
    expected = [
        op.decode(tree_reduce(op, op.encode(rows), plan_tree([len(rows)]))) for rows in sets
    ]
    torch.testing.assert_close(op.decode(tree.value()), torch.cat(expected))
    assert index.bincount().tolist() == [16, 10]


@pytest.mark.parametrize("sizes", [[0], [1], [2], [3, 0, 1], [8, 5, 17, 0, 1, 64, 2]])
def test_leaving_one_out_leaves_all_others(sizes):
    op = Counting(Sum())
    x = integers(sum(sizes), 2)
    groups = Groups.from_sizes(sizes)
    tree = FoldTree(op, x, groups)
    op.counted()
    left = tree.leave_one_out()
    assert op.counted() == sum(max(2 * size - 4, 0) for size in sizes)
    assert left.equal(tree.value()[groups.index] - x)


def test_leaving_one_out_with_a_learned_operator_is_the_fold_without_it_up_to_bracketing():
    torch.manual_seed(0)
    op = BinaryGRU(3).double()
    x = normal(3, 3)
    left = FoldTree(op, x).leave_one_out()
    expected = torch.cat([op(x[[1]], x[[2]]), op(x[[0]], x[[2]]), op(x[[0]], x[[1]])])
    torch.testing.assert_close(left, expected.detach())


def test_empty_sets_are_the_identity_and_new_ones_can_be_added():
    op = BinaryGRU(3)
    nn.init.normal_(op.identity)
    tree = FoldTree(op, torch.randn(0, 3), Groups.from_sizes([0, 0]))
    assert tree.value().equal(op.identity.detach().expand(2, 3))
    assert tree.add_sets(1).tolist() == [2]
    row = torch.randn(1, 3)
    tree.insert(row, 2)
    assert tree.value([2]).equal(row)


def test_rebuilding_gives_the_same_trees():
    op = BinaryGRU(3).double()
    tree = FoldTree(op, normal(50, 3), Groups.from_sizes([20, 30]))
    tree.remove(torch.arange(5, 40))
    torch.testing.assert_close(tree.rebuilt().value(), tree.value())


def test_refolding_takes_new_parameters():
    op = BinaryGRU(3).double()
    tree = FoldTree(op, normal(9, 3))
    op.reset_parameters()
    nn.init.normal_(op.cell.weight_ih)
    tree.refold()
    torch.testing.assert_close(tree.value(), from_scratch(tree).detach())


def test_an_exact_monoid_is_stable_and_a_learned_one_is_not():
    exact = FoldTree(Sum(), integers(40, 3), Groups.from_sizes([30, 10]))
    assert exact.stability(generator=seeded()).largest.tolist() == [0, 0]
    learned = FoldTree(BinaryGRU(3).double(), normal(40, 3), Groups.from_sizes([39, 1]))
    found = learned.stability(generator=seeded()).largest
    assert found[0] > 1e-6
    assert found[1] == 0
