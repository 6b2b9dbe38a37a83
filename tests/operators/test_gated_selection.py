import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from trees import normal

from treefold.algebra import COMMUTATIVITY
from treefold.fold import plan_tree, tree_reduce
from treefold.operators import GatedSelection
from treefold.operators.gated_selection import stretched_gate

A, B = normal(9, 4, seed=1), normal(9, 4, seed=2)


def make(**options):
    torch.manual_seed(0)
    return GatedSelection(4, **options).double()


def hidden(op, first, second):
    """The hidden layer for one order of the arguments, its weights taken apart again."""
    weights, biases = op.hidden.weight.chunk(2), op.hidden.bias.chunk(2)
    return nn.functional.gelu(
        first @ weights[0].t() + biases[0] + second @ weights[1].t() + biases[1]
    )


def test_it_keeps_a_mixture_of_both_arguments_or_writes_a_new_value():
    op = make()
    ab, ba = hidden(op, A, B), hidden(op, B, A)
    select = torch.sigmoid((ab - ba) @ op.select.weight.t())
    summed = (ab + ba) @ op.keep_and_new.weight.t() + op.keep_and_new.bias
    keep, new = summed.chunk(2, -1)
    keep, new = torch.sigmoid(keep), torch.tanh(new)
    expected = keep * (select * A + (1 - select) * B) + (1 - keep) * new
    torch.testing.assert_close(op(A, B), expected)
    assert not torch.allclose(ab, ba)


@pytest.mark.parametrize("options", [{}, {"selects": False}, {"writes": False}, {"stretch": 0.1}])
def test_it_is_commutative(options):
    COMMUTATIVITY.assert_holds(make(**options), A, B, atol=1e-14)


def test_without_writing_every_channel_lies_between_the_arguments():
    out = make(writes=False)(A, B)
    assert (out >= torch.minimum(A, B)).all()
    assert (out <= torch.maximum(A, B)).all()


def test_without_selecting_or_writing_it_is_the_mean():
    torch.testing.assert_close(make(selects=False, writes=False)(A, B), (A + B) / 2)


def test_what_shut_gates_copy_does_not_wear_away():
    """With gates that are shut, a thousand merges give a row of the set, channel by channel."""
    op = make()
    with torch.no_grad():
        op.select.weight.copy_(1e4 * torch.randn_like(op.select.weight))
        op.keep_and_new.weight.zero_()
        op.keep_and_new.bias.fill_(1e4)
    rows = normal(1000, 4, seed=3)
    folded = tree_reduce(op, rows, plan_tree(torch.tensor([1000])))
    assert ((folded == rows).any(0)).all()


@pytest.mark.parametrize(("stretch", "copies"), [(0.0, False), (0.1, True)])
def test_a_stretched_gate_shuts_for_good_where_a_sigmoid_does_not(stretch, copies):
    """At 3, a sigmoid is 0.95; stretched by 0.1 it is cut off at 1."""
    op = make(selects=False, stretch=stretch)
    with torch.no_grad():
        op.keep_and_new.weight.zero_()
        op.keep_and_new.bias.fill_(3.0)
    assert torch.equal(op(A, B), (A + B) / 2) is copies


def test_stretched_gates_are_sigmoids_that_are_stretched_and_cut_off():
    x = torch.linspace(-4, 4, 9, dtype=torch.float64)
    expected = (1.2 * torch.sigmoid(x) - 0.1).clamp(0, 1)
    torch.testing.assert_close(stretched_gate(x, 0.1), expected)
    assert expected[0] == 0.0
    assert expected[-1] == 1.0
    with pytest.raises(ValueError, match=r"stretch is -0.1; expected 0 or more"):
        make(stretch=-0.1)


def test_the_hidden_layer_is_as_wide_as_the_rows_unless_told_otherwise():
    assert make().select.in_features == 4
    assert make(hidden_channels=7).select.in_features == 7


def test_resetting_draws_all_layers_anew():
    op = make()
    before = {name: tensor.clone() for name, tensor in op.state_dict().items()}
    op.reset_parameters()
    same = [name for name, tensor in op.state_dict().items() if torch.equal(tensor, before[name])]
    assert same == ["identity"]


@pytest.mark.parametrize("stretch", [0.0, 0.1])
def test_its_gradients_are_those_of_finite_differences(stretch):
    op = GatedSelection(2, hidden_channels=2, stretch=stretch).double()
    arguments = [normal(2, 2, seed=seed).requires_grad_() for seed in (1, 2)]
    inputs = (*arguments, *[each for name, each in op.named_parameters() if name != "identity"])
    assert gradcheck(lambda a, b, *_: op(a, b), inputs)
    assert gradgradcheck(lambda a, b, *_: op(a, b), inputs)
