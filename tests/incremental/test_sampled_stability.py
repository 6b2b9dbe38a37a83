"""The stability of a few whole groups stands for folds that are too large to repeat."""

import pytest
import torch
from trees import normal, seeded

from treefold.algebra import Mean, Sum
from treefold.distributed import fold_in_budget
from treefold.fold import Groups, TableRows, plan_tree, tree_reduce
from treefold.incremental import bracketing_stability, sampled_stability, sharded_stability
from treefold.operators import BinaryGRU

SIZES = [5, 0, 1, 40, 3, 7, 2]


def learned():
    torch.manual_seed(0)
    return BinaryGRU(4).double()


def shuffled_groups():
    index = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    return Groups.from_index(index[torch.randperm(len(index), generator=seeded(4))], len(SIZES))


def test_of_few_groups_it_takes_all_that_have_several_bracketings():
    op, x, groups = learned(), normal(58, 4), shuffled_groups()
    found = sampled_stability(op, x, groups, generator=seeded())
    able = [0, 3, 4, 5, 6]
    kept = torch.cat([x[groups.order].split(SIZES)[group] for group in able])
    sizes = [SIZES[group] for group in able]
    expected = bracketing_stability(op, kept, Groups.from_sizes(sizes), 8, seeded())
    assert found.absolute.equal(expected.absolute)
    assert found.largest[:4].min() > 1e-6
    assert found.largest[4] < 1e-12  # two elements meet in one way


def test_the_largest_group_is_always_among_those_that_are_drawn():
    groups = Groups.from_sizes([2] * 50 + [300] + [2] * 50)
    for seed in range(3):
        found = sampled_stability(learned(), normal(500, 4), groups, 2, generator=seeded(seed))
        assert found.absolute.shape == (8, 2)
        assert found.largest.max() > 1e-6


def test_it_is_that_of_a_fold_in_a_budget():
    table, rows, groups = normal(9, 4), torch.arange(58) % 9, shuffled_groups()
    found = sampled_stability(learned(), TableRows(table, rows), groups, generator=seeded())
    plain = sampled_stability(learned(), table[rows], groups, generator=seeded())
    assert found.absolute.equal(plain.absolute)
    # Another order of rows is another answer of the fold itself, and no farther than twice that.
    op, order = learned(), groups.shuffled(seeded(7)).order
    moved = Groups(groups.sizes, order, groups.num_rows)
    first, second = (fold_in_budget(op, table, rows, each, 4096) for each in (groups, moved))
    apart = (first - second).norm(dim=1)[[0, 3, 4, 5, 6]]
    assert apart.max() > 1e-6
    assert apart.max() < 2 * found.largest.max()


@pytest.mark.parametrize("op", [Sum(), Mean()], ids=str)
def test_an_exact_monoid_has_none(op):
    x = op.encode(torch.randint(0, 99, (58, 4)))
    for measure in (sampled_stability, sharded_stability):
        assert measure(op, x, shuffled_groups(), generator=seeded()).largest.eq(0).all()


def test_it_is_in_the_units_of_the_output():
    x, groups = normal(58, 4), shuffled_groups()
    plain = sampled_stability(learned(), x, groups, generator=seeded())
    tenfold = sampled_stability(
        learned(), x, groups, generator=seeded(), decode=lambda state: 10 * state
    )
    torch.testing.assert_close(tenfold.absolute, 10 * plain.absolute)


def test_wrong_requests_say_what_to_do():
    x, groups = normal(58, 4), shuffled_groups()
    with pytest.raises(ValueError, match="0 groups measure nothing; expected 1 or more"):
        sampled_stability(learned(), x, groups, 0)
    with pytest.raises(ValueError, match="57 rows, but the groups are for 58"):
        sharded_stability(learned(), x[:57], groups)


def test_groups_with_one_bracketing_are_not_measured():
    found = sampled_stability(learned(), normal(3, 4), Groups.from_sizes([1, 1, 0, 1]))
    assert found.absolute.shape == (8, 0)
    assert str(found) == "no sets, 8 bracketings"
    assert tree_reduce(learned(), normal(1, 4), plan_tree([1])).equal(normal(1, 4))
