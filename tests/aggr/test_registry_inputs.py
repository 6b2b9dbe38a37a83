"""Every aggregator of the registry takes its rows and its index in any form that says the same."""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    INDEX,
    NUM_GROUPS,
    RAGGED,
    UNSORTED,
    X,
    by_hand,
    every,
    make,
    normal,
    recording,
)
from torch_geometric.nn import SimpleConv

from treefold.fold import Groups

# Ways to say who sits together


@every
def test_an_unsorted_index_is_as_good_as_a_sorted_one(name):
    module, order = make(name), torch.argsort(UNSORTED, stable=True)
    assert torch.equal(UNSORTED[order], INDEX)
    torch.testing.assert_close(module(X, UNSORTED), module(X[order], INDEX))


@every
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_the_index_may_be_of_any_integer_type(name, dtype):
    module, ptr = make(name), torch.tensor([0, *RAGGED]).cumsum(0)
    assert torch.equal(module(X, UNSORTED.to(dtype)), module(X, UNSORTED))
    assert torch.equal(module(X, ptr=ptr.to(dtype)), module(X, ptr=ptr))


@every
def test_ptr_says_the_same_as_a_sorted_index(name):
    module, ptr = make(name), torch.tensor([0, *RAGGED]).cumsum(0)
    expected = module(X, INDEX)
    assert torch.equal(module(X, ptr=ptr), expected)
    assert torch.equal(module(X, INDEX, ptr), expected)
    assert torch.equal(module(X, INDEX.int(), ptr, dim_size=NUM_GROUPS), expected)


@every
def test_without_an_index_all_rows_are_one_set(name):
    module = make(name)
    torch.testing.assert_close(module(X)[0], by_hand(name, module, X), rtol=1e-6, atol=1e-9)


@every
def test_a_larger_dim_size_only_adds_empty_groups(name):
    module = make(name)
    larger, plain = module(X, UNSORTED, dim_size=NUM_GROUPS + 3), module(X, UNSORTED)
    torch.testing.assert_close(larger[:NUM_GROUPS], plain)
    assert torch.equal(larger[NUM_GROUPS:], plain[1].expand(3, -1))


@every
def test_our_own_layers_may_hand_over_groups(name):
    module = make(name)
    groups = Groups.from_index(UNSORTED, NUM_GROUPS)
    assert torch.equal(module.aggregate(X, groups), module(X, UNSORTED))


# Axes


@every
def test_towers_are_aggregated_one_by_one(name):
    module, x = make(name), normal(len(X), 3, CHANNELS)
    together = module(x, UNSORTED, dim=0)
    for tower in range(3):
        torch.testing.assert_close(together[:, tower], module(x[:, tower], UNSORTED))


@every
@pytest.mark.parametrize("dim", range(-4, 4))
def test_any_axis_may_hold_the_elements(name, dim):
    module, x = make(name), normal(len(X), 2, 3, CHANNELS)
    moved = module(x.movedim(0, dim), UNSORTED, dim=dim)
    torch.testing.assert_close(moved.movedim(dim, 0), module(x, UNSORTED, dim=0))


@every
def test_the_elements_are_on_the_last_axis_but_one_by_default(name):
    module, x = make(name), normal(2, len(X), CHANNELS)
    expected = torch.stack([module(part, UNSORTED) for part in x])
    torch.testing.assert_close(module(x, UNSORTED), expected)
    transposed = module(X.t(), UNSORTED, dim=-1)
    torch.testing.assert_close(transposed, module(X, UNSORTED).t())


@every
@pytest.mark.parametrize("dim", range(-4, 4))
@pytest.mark.parametrize("num_rows", [len(X), 0])
def test_the_answer_along_any_axis_lies_side_by_side_as_in_pyg(name, dim, num_rows):
    module, x = make(name), normal(num_rows, 2, 3, CHANNELS).movedim(0, dim)
    out = module(x, UNSORTED[:num_rows], dim=dim, dim_size=NUM_GROUPS)
    assert out.is_contiguous()
    assert out.view(-1).shape == (NUM_GROUPS * 2 * 3 * module.out_channels,)


@every
def test_a_layer_on_a_static_graph_gives_what_can_be_viewed(name):
    layer = SimpleConv(aggr=make(name))
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0]])
    x = normal(3, 4, CHANNELS)
    out = layer(x, edge_index)
    alone = torch.stack([layer(part, edge_index) for part in x])
    torch.testing.assert_close(out.view(3, -1), alone.view(3, -1))


@every
def test_memory_layout_does_not_matter(name):
    module = make(name)
    expected = module(X, UNSORTED)
    wide = torch.stack([X, normal(*X.shape, seed=3)], -1)
    torch.testing.assert_close(module(wide[..., 0], UNSORTED), expected)
    torch.testing.assert_close(module(X.t().contiguous().t(), UNSORTED), expected)
    strided = torch.stack([UNSORTED, INDEX], 1)[:, 0]
    torch.testing.assert_close(module(X, strided), expected)


@every
def test_expanded_rows_are_repeated_rows(name):
    module, row = make(name), X[:1].clone().requires_grad_()
    repeated = row.repeat(len(X), 1)
    expected = module(repeated, UNSORTED)
    out = module(row.expand(len(X), -1), UNSORTED)
    torch.testing.assert_close(out, expected)
    grads = [torch.autograd.grad(o.square().sum(), row)[0] for o in (out, expected)]
    torch.testing.assert_close(*grads)


@every
def test_the_input_is_left_as_it_was(name):
    module, x, index = make(name).train(), X.clone(), UNSORTED.clone()
    with recording(module):
        module(x, index)
    assert torch.equal(x, X)
    assert torch.equal(index, UNSORTED)
