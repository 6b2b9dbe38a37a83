import pytest
import torch

from treefold.algebra import Max, Mean, Multisets, Sum, draw_elements, draw_multisets


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_fold_takes_as_many_members_as_the_multiset_has_elements():
    members = tuple(torch.tensor([[1.0] * 4, [10.0] * 4, [100.0] * 4]))
    multisets = Multisets(members, sizes=torch.tensor([0, 1, 2, 3]))
    assert multisets.fold(Sum()).tolist() == [0.0, 1.0, 11.0, 111.0]
    assert multisets.map(torch.neg).fold(Max()).tolist() == [-torch.inf, -1.0, -1.0, -1.0]


def test_feature_axes_and_tuples_are_folded_too():
    member = Mean().encode(torch.tensor([[2.0, 4.0], [6.0, 8.0]]))
    total, count = Multisets((member, member), torch.tensor([2, 1])).fold(Mean())
    assert total.tolist() == [[4.0, 8.0], [6.0, 8.0]]
    assert count.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_a_singleton_folds_to_its_element_even_if_the_identity_is_wrong():
    assert Multisets((torch.tensor([-3.0]),), torch.tensor([1])).fold(Max(0.0)).tolist() == [-3.0]


def test_all_sizes_are_drawn_after_an_empty_multiset_and_a_singleton():
    sizes = draw_multisets(torch.arange(5), 200, 4, seeded()).sizes
    assert sizes[:2].tolist() == [0, 1]
    assert set(sizes.tolist()) == {0, 1, 2, 3, 4}


def test_draws_come_from_the_samples_and_stacks_are_independent():
    one, other = draw_elements(torch.tensor([3, 5, 7]), 2, 100, seeded())
    assert set(one.tolist()) == set(other.tolist()) == {3, 5, 7}
    assert one.tolist() != other.tolist()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="at most 0 elements"):
        draw_multisets(torch.arange(5), 3, 0)
    with pytest.raises(ValueError, match="no samples to draw from"):
        draw_multisets(torch.arange(0), 3, 2)
