"""A living set equals the fold of what is in it, and costs O(log n) to keep so."""

from math import ceil, log2

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from living.operators_for_tests import Counting, CountingTrees, Failing, Scramble, integers
from torch import nn
from trees import normal, seeded

from treefold.algebra import Max, Mean, Sum, TopK, Variance, map_state
from treefold.checkpoints import DamagedCheckpoint
from treefold.living import FoldTree
from treefold.living.saving import load_living
from treefold.operators import BinaryGRU
from treefold.reduction import Groups, plan_tree, tree_reduce

NUM_SETS = 4


def from_scratch(tree):
    return tree_reduce(tree.op, tree.rows(), plan_tree(tree.sizes, "carry"))


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


@pytest.mark.parametrize("size", [2, 3, 64, 65, 1000])
def test_one_update_costs_the_height_of_the_tree(size):
    op = Counting(Sum())
    tree = FoldTree(op, integers(size, 2))
    assert op.counted() == size - 1
    height = ceil(log2(size))
    for handle in (0, size // 2, size - 1):
        tree.replace(handle, integers(1, 2))
        assert op.counted() <= height
    (new,) = tree.insert(integers(1, 2)).tolist()
    assert op.counted() <= ceil(log2(size + 1))
    tree.remove(new)
    assert op.counted() <= height
    tree.remove(0)  # the last element moves to its place
    assert op.counted() <= 2 * height


@pytest.mark.parametrize("size", [2, 3, 64, 65, 1000])
def test_a_path_that_is_folded_at_once_costs_no_more(size):
    op = CountingTrees(BinaryGRU(2).double())
    tree = FoldTree(op, normal(size, 2))
    assert op.counted() == size - 1
    height = ceil(log2(size))
    for handle in (0, size // 2, size - 1):
        op.calls = 0
        tree.replace(handle, normal(1, 2, seed=handle + 1))
        assert op.counted() <= height
        assert op.calls == 1
    assert tree.value().allclose(from_scratch(tree))
    op.counted()
    (new,) = tree.insert(normal(1, 2, seed=5)).tolist()
    assert op.counted() <= ceil(log2(size + 1))
    tree.remove(new)
    assert op.counted() <= height
    tree.remove(0)
    assert op.counted() <= 2 * height
    assert tree.value().allclose(from_scratch(tree))


def test_growing_one_by_one_costs_a_logarithm_each_and_shrinking_twice_that():
    op = Counting(Sum())
    tree = FoldTree(op, integers(0, 2))
    for size in range(1, 80):
        tree.insert(integers(1, 2))
        assert op.counted() <= ceil(log2(size))
    for size in range(79, 0, -1):
        tree.remove(tree.handles()[size // 3])
        assert op.counted() <= 2 * ceil(log2(size))


def test_updates_together_meet_level_by_level():
    op = Counting(Sum())
    tree = FoldTree(op, integers(4096, 2), Groups.from_sizes([1024] * 4))
    op.calls = op.applications = 0
    tree.replace(torch.arange(0, 4096, 8), integers(512, 2))
    assert op.calls <= 10
    assert op.applications == 512 * 3 + 4 * 127  # no ancestor twice
    tree.replace(torch.arange(4096), integers(4096, 2))
    assert tree.value().equal(from_scratch(tree))


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


def test_memory_follows_the_elements():
    tree = FoldTree(Max(), torch.randn(1 << 12, 8))
    full = tree.num_bytes
    states = 2 * (1 << 12) * 8 * 4
    assert states <= full <= 1.5 * states
    tree.remove(torch.arange(32, 1 << 12))
    assert tree.num_bytes < full / 2  # what is left belongs to handles
    for _ in range(5):
        tree.insert(torch.randn(1000, 8))
    assert tree.num_bytes <= 2.5 * full


class TestSaving:
    def living(self):
        torch.manual_seed(0)
        tree = FoldTree(BinaryGRU(3), torch.randn(20, 3), Groups.from_sizes([9, 0, 11]))
        tree.remove([3, 12])
        tree.insert(torch.randn(2, 3), [1, 1])
        return tree

    def test_what_is_loaded_goes_on_as_what_was_saved(self, tmp_path):
        tree = self.living()
        tree.save(tmp_path / "tree")
        again = FoldTree.load(tmp_path / "tree", tree.op)
        assert again.value().equal(tree.value())
        assert again.handles().equal(tree.handles())
        row = torch.randn(1, 3)
        for each in (tree, again):
            with pytest.raises(ValueError, match="name no element"):
                each.remove(3)
            each.replace(5, row)
            each.insert(row, 0)
        assert again.value().equal(tree.value())

    def test_states_may_be_tuples(self, tmp_path):
        op = Mean()
        tree = FoldTree(op, op.encode(normal(7, 2)))
        tree.save(tmp_path)
        loaded = FoldTree.load(tmp_path, op).value()
        map_state(lambda a, b: torch.testing.assert_close(a, b) or a, loaded, tree.value())

    def test_another_operator_is_refused(self, tmp_path):
        self.living().save(tmp_path)
        with pytest.raises(ValueError, match="another operator"):
            FoldTree.load(tmp_path, BinaryGRU(3))

    def test_a_changed_byte_is_noticed(self, tmp_path):
        tree = self.living()
        tree.save(tmp_path)
        (path,) = tmp_path.glob("*.safetensors")
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        with pytest.raises(DamagedCheckpoint, match="SHA-256"):
            FoldTree.load(tmp_path, tree.op)

    def test_it_is_loaded_to_the_device_that_is_named(self, tmp_path):
        tree = self.living()
        tree.save(tmp_path)
        loaded = load_living(tmp_path, "fold-tree", [tree.op], "meta")
        assert {tensor.device.type for tensor in loaded.tensors.values()} == {"meta"}
        assert FoldTree.load(tmp_path, tree.op, device="cpu").value().equal(tree.value())

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
    def test_it_goes_on_beside_its_operator(self, tmp_path):
        tree = self.living()
        tree.save(tmp_path)
        again = FoldTree.load(tmp_path, tree.op.cuda())
        again.insert(torch.randn(1, 3, device="cuda"))
        assert again.value().is_cuda

    def test_an_empty_folder_is_no_tree(self, tmp_path):
        with pytest.raises(ValueError, match="holds no saved fold-tree"):
            FoldTree.load(tmp_path, Sum())


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


def test_the_spread_is_zero_for_an_exact_monoid_and_not_for_a_learned_one():
    exact = FoldTree(Sum(), integers(40, 3), Groups.from_sizes([30, 10]))
    assert exact.spread(generator=seeded()).largest.tolist() == [0, 0]
    learned = FoldTree(BinaryGRU(3).double(), normal(40, 3), Groups.from_sizes([39, 1]))
    found = learned.spread(generator=seeded()).largest
    assert found[0] > 1e-6
    assert found[1] == 0


def test_where_there_are_several_sets_it_must_be_said_which():
    tree = FoldTree(Sum(), torch.ones(3, 1), Groups.from_sizes([1, 2]))
    with pytest.raises(ValueError, match="there are 2 sets; say with `sets=`"):
        tree.insert(torch.ones(1, 1))
    assert tree.sizes.tolist() == [1, 2]
