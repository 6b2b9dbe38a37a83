"""A wrong request, or an operator that fails, leaves a fold tree as it was."""

import pytest
import torch
from incremental.operators_for_tests import Failing, integers
from incremental.scratch import from_scratch

from treefold.algebra import Sum
from treefold.fold import Groups
from treefold.incremental import FoldTree
from treefold.operators import BinaryGRU


class TestRefusing:
    def test_handles_that_are_gone_even_when_their_numbers_are_in_use_again(self):
        tree = FoldTree(Sum(), integers(3, 2))
        tree.remove(1)
        (new,) = tree.insert(integers(1, 2)).tolist()
        assert new != 1
        with pytest.raises(ValueError, match="the first of them 1, name no element"):
            tree.replace(1, integers(1, 2))

    @pytest.mark.parametrize(
        ("act", "message"),
        [
            (lambda tree: tree.remove([0, 0]), "handle 0 is given twice"),
            (lambda tree: tree.remove([-1]), "name no element"),
            (lambda tree: tree.remove([99]), "name no element"),
            (lambda tree: tree.remove(torch.tensor([0.5])), "expected integers"),
            (lambda tree: tree.insert(integers(2, 3)), r"shape \[n, 2\]"),
            (lambda tree: tree.insert(torch.zeros(2, 2)), "torch.float32"),
            (lambda tree: tree.insert(integers(2, 2), 5), "no set 5 among 1"),
            (lambda tree: tree.insert(integers(3, 2), [0, 0]), "2 sets for 3 rows"),
            (lambda tree: tree.replace([0, 1], integers(1, 2)), "1 rows for 2 handles"),
            (lambda tree: tree.add_sets(-1), "expected 0 or more"),
        ],
    )
    def test_nothing_has_changed_after_a_wrong_request(self, act, message):
        tree = FoldTree(Sum(), integers(3, 2))
        before = tree.value(), tree.handles(), tree.rows()
        with pytest.raises(ValueError, match=message):
            act(tree)
        after = tree.value(), tree.handles(), tree.rows()
        assert all(a.equal(b) for a, b in zip(after, before, strict=True))

    def test_rows_that_are_no_elements_even_if_nothing_meets(self):
        with pytest.raises(ValueError, match=r"shape \(1, 5\); expected \[n, \.\.\., 3\]"):
            FoldTree(BinaryGRU(3), torch.randn(1, 5))
        with pytest.raises(ValueError, match=r"an element of BinaryGRU has shape \[3\]"):
            FoldTree(BinaryGRU(3), torch.randn(0))

    def test_rows_without_a_set(self):
        with pytest.raises(ValueError, match="give exactly the rows"):
            FoldTree(Sum(), integers(4, 2), Groups.from_mask(torch.tensor([[True, False]])))


UPDATES = {
    "insert one": lambda tree, rows: tree.insert(rows[:1], 1),
    "insert many": lambda tree, rows: tree.insert(rows, [0, 1, 1, 2, 2, 2]),
    "insert more than there is room for": lambda tree, rows: tree.insert(rows.repeat(5, 1), 2),
    "remove one": lambda tree, rows: tree.remove(3),
    "remove many": lambda tree, rows: tree.remove([0, 3, 5, 12, 14]),
    "replace one": lambda tree, rows: tree.replace(4, rows[:1]),
    "replace many": lambda tree, rows: tree.replace([0, 4, 5, 11, 12, 13], rows),
}


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_in_which_the_operator_fails_has_not_happened(update):
    op, rows = Failing(), integers(6, 2)
    tree = FoldTree(op, integers(25, 2), Groups.from_sizes([11, 5, 9]))
    before = [tree.value(), tree.handles(), tree.rows(), tree.sizes]
    for op.calls_left in range(100):
        allowed = op.calls_left
        try:
            UPDATES[update](tree, rows)
        except RuntimeError:
            after = [tree.value(), tree.handles(), tree.rows(), tree.sizes]
            assert all(a.equal(b) for a, b in zip(after, before, strict=True))
        else:
            break
    assert 0 < allowed < 99  # it has failed at every call, and then it has worked
    op.calls_left = 1 << 30
    assert tree.value().equal(from_scratch(tree))
    tree.remove(tree.handles()[1:4])
    tree.insert(rows, 0)
    assert tree.value().equal(from_scratch(tree))


def test_where_there_are_several_sets_it_must_be_said_which():
    tree = FoldTree(Sum(), torch.ones(3, 1), Groups.from_sizes([1, 2]))
    with pytest.raises(ValueError, match="there are 2 sets; give `sets=`"):
        tree.insert(torch.ones(1, 1))
    assert tree.sizes.tolist() == [1, 2]
