"""Promises of every operator in the registry."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from trees import BRACKETINGS, Folding, normal, reference_reduce, seeded, weighted

from treefold.algebra import COMMUTATIVITY
from treefold.fold import TableRows, fold_levels, plan_tree, tree_fold, tree_reduce
from treefold.operators import OPERATORS, Operator, Symmetrized

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1]
TOTAL = sum(RAGGED)


class Skewed(nn.Module):
    """A function to be symmetrized."""

    def __init__(self, channels):
        super().__init__()
        self.linear = nn.Linear(2 * channels, channels)

    def forward(self, a, b):
        return torch.tanh(self.linear(torch.cat([a, b], -1))) + a

    def reset_parameters(self):
        self.linear.reset_parameters()


class Scaled(Operator):
    """A part and a parameter of its own, which it begins after the base has begun the rest."""

    def __init__(self, channels):
        super().__init__(channels)
        self.linear = nn.Linear(channels, channels)
        self.scale = nn.Parameter(torch.empty(channels))
        self.identity = self.learned_identity()
        self.reset_parameters()

    def reset_parameters(self):
        super().reset_parameters()
        nn.init.uniform_(self.scale, 0.5, 1.5)

    def forward(self, a, b):
        return torch.tanh(self.linear(a) + self.linear(b)) + self.scale * (a + b) / 2


# The registry, one operator that needs more than a width, and one as users write them.
MAKERS = {
    **OPERATORS,
    "symmetrized": lambda channels: Symmetrized(Skewed(channels), channels),
    "with a parameter of its own": Scaled,
}

operators = pytest.mark.parametrize("name", MAKERS)
bracketings = pytest.mark.parametrize("bracketing", BRACKETINGS)


def make(name, channels=4):
    torch.manual_seed(0)
    op = MAKERS[name](channels).double()
    if isinstance(op.identity, nn.Parameter):
        nn.init.normal_(op.identity)
    return op


@operators
def test_it_is_an_operator_of_its_width(name):
    op = make(name)
    assert isinstance(op, Operator)
    assert op.channels == 4
    assert op.identity.shape == (4,)
    assert repr(op).startswith(type(op).__name__ + "(")


@operators
def test_it_is_commutative(name):
    COMMUTATIVITY.assert_holds(make(name), normal(50, 4, seed=1), normal(50, 4, seed=2))


@operators
def test_it_acts_on_the_last_axis_row_by_row(name):
    op, a, b = make(name), normal(3, 2, 5, 4, seed=1), normal(3, 2, 5, 4, seed=2)
    rows = [op(x, y) for x, y in zip(a.view(-1, 4), b.view(-1, 4), strict=True)]
    torch.testing.assert_close(op(a, b), torch.stack(rows).view(3, 2, 5, 4))
    assert op(a[:0], b[:0]).shape == (0, 2, 5, 4)


@operators
@bracketings
def test_its_fold_and_gradients_are_those_of_the_reference(name, bracketing):
    op, plan = make(name), plan_tree(RAGGED, bracketing, seeded())
    x = normal(TOTAL, 4).requires_grad_()
    wanted = [x, *op.parameters()]
    fast = tree_reduce(op, x, plan)
    slow = reference_reduce(op, x, RAGGED, bracketing, plan)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(
        torch.autograd.grad(weighted(fast), wanted), torch.autograd.grad(weighted(slow), wanted)
    )


@operators
@pytest.mark.parametrize("table_rows", [5, 40])
def test_rows_of_a_table_fold_like_the_gathered_rows(name, table_rows):
    op, plan, table = make(name), plan_tree(RAGGED), normal(table_rows, 2, 4).requires_grad_()
    rows = torch.randint(table_rows - 1, (TOTAL,), generator=seeded(2))
    wanted = [table, *op.parameters()]
    found = []
    for x in (TableRows(table, rows), table[rows]):
        fold = tree_fold(op, x, plan)
        gradients = torch.autograd.grad(weighted(*fold), wanted)
        found.append([*fold, *gradients])
    torch.testing.assert_close(*found)


@operators
def test_it_folds_like_the_same_function_without_a_fold_of_its_own(name):
    op, x, plan = make(name), normal(TOTAL, 4), plan_tree(RAGGED)
    fast, slow = tree_fold(op, x, plan), fold_levels(op, x, plan)
    torch.testing.assert_close(fast.groups, slow.groups)
    torch.testing.assert_close(fast.nodes, slow.nodes)


@operators
def test_single_rows_pass_untouched_and_empty_groups_give_the_identity(name):
    op, x = make(name), normal(3, 4)
    out = tree_reduce(op, x, plan_tree([1, 0, 2]))
    assert torch.equal(out[0], x[0])
    assert torch.equal(out[1], op.identity)


@operators
@pytest.mark.parametrize("sizes", [[], [0, 0], [1], [1, 0]])
def test_every_parameter_gets_a_gradient_where_nobody_meets(name, sizes):
    op = make(name)
    tree_reduce(op, normal(sum(sizes), 4), plan_tree(sizes)).sum().backward()
    assert all(parameter.grad is not None for parameter in op.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in op.parameters())


@operators
def test_gradients_are_those_of_finite_differences_once_and_twice(name):
    op, plan = make(name, channels=2), plan_tree([3, 0, 1])
    inputs = (normal(4, 2).requires_grad_(), *op.parameters())
    assert gradcheck(lambda x, *_: tree_reduce(op, x, plan), inputs, fast_mode=True)
    assert gradgradcheck(lambda x, *_: tree_reduce(op, x, plan), inputs, fast_mode=True)


@operators
def test_copies_pickles_and_loaded_states_answer_bit_for_bit(name):
    op, x, plan = make(name), normal(TOTAL, 4), plan_tree(RAGGED)
    loaded = MAKERS[name](4).double()
    loaded.load_state_dict(op.state_dict())
    expected = tree_reduce(op, x, plan)
    for same in (copy.deepcopy(op), pickle.loads(pickle.dumps(op)), loaded):
        assert torch.equal(tree_reduce(same, x, plan), expected)


@operators
def test_a_copy_has_parameters_of_its_own(name):
    op, x, plan = make(name), normal(TOTAL, 4), plan_tree(RAGGED)
    expected = tree_reduce(op, x, plan)
    copied = copy.deepcopy(op)
    copied.reset_parameters()
    assert torch.equal(tree_reduce(op, x, plan), expected)
    assert not torch.equal(tree_reduce(copied, x, plan), expected)


@operators
def test_resetting_draws_every_parameter_anew(name):
    op = make(name)
    with torch.no_grad():
        for parameter in op.parameters():
            parameter.fill_(7.0)
    op.reset_parameters()
    assert all((parameter != 7.0).all() for parameter in op.parameters())
    if isinstance(op.identity, nn.Parameter):
        assert op.identity.tolist() == [0.0] * 4


@operators
def test_the_base_begins_its_parts_and_its_identity_whatever_else_it_has(name):
    op = make(name)
    parts = [parameter for part in op.children() for parameter in part.parameters()]
    with torch.no_grad():
        for parameter in op.parameters():
            parameter.fill_(7.0)
    Operator.reset_parameters(op)
    assert parts
    assert all((parameter != 7.0).all() for parameter in parts)
    if isinstance(op.identity, nn.Parameter):
        assert op.identity.tolist() == [0.0] * 4


@operators
def test_stacked_parameters_under_vmap_are_a_loop(name):
    torch.manual_seed(1)
    models = [Folding(MAKERS[name](4).double()) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    x, plan = normal(TOTAL, 4), plan_tree(RAGGED)

    def run(parameters, buffers, x):
        return torch.func.functional_call(models[0], (parameters, buffers), (x, plan))

    out = torch.vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)
    torch.testing.assert_close(out, torch.stack([model(x, plan) for model in models]))


@operators
def test_stacked_rows_under_vmap_are_a_loop(name):
    op, x, plan = make(name), normal(3, TOTAL, 4), plan_tree(RAGGED)
    out = torch.vmap(lambda x: tree_reduce(op, x, plan))(x)
    torch.testing.assert_close(out, torch.stack([tree_reduce(op, one, plan) for one in x]))


@operators
def test_functional_gradients_are_autograds(name):
    model, x, plan = Folding(make(name)), normal(TOTAL, 4), plan_tree(RAGGED)
    parameters = dict(model.named_parameters())

    def loss(parameters):
        return weighted(torch.func.functional_call(model, parameters, (x, plan)))

    found = torch.func.grad(loss)({key: value.detach() for key, value in parameters.items()})
    expected = torch.autograd.grad(weighted(model(x, plan)), list(parameters.values()))
    torch.testing.assert_close([found[key] for key in parameters], list(expected))


@operators
def test_parameters_given_to_a_call_are_the_ones_used(name):
    model, other = Folding(make(name)), Folding(make(name))
    other.op.reset_parameters()
    x, plan = normal(TOTAL, 4), plan_tree(RAGGED)
    out = torch.func.functional_call(model, dict(other.named_parameters()), (x, plan))
    torch.testing.assert_close(out, other(x, plan))


@operators
def test_it_runs_under_autocast_near_single_precision(name):
    op, plan = make(name, channels=16).float(), plan_tree(RAGGED)
    x = normal(TOTAL, 16, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = tree_reduce(op, x, plan)
    torch.testing.assert_close(half.float(), tree_reduce(op, x, plan), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", OPERATORS)
def test_no_channels_are_refused(name):
    with pytest.raises(ValueError, match="0 channel"):
        OPERATORS[name](0)


class Parts(Operator):
    """Parts within parts, and no word on how to begin anew."""

    def __init__(self, channels):
        super().__init__(channels)
        self.network = nn.Sequential(nn.Sequential(nn.Linear(channels, channels)), nn.Tanh())
        self.identity = self.learned_identity()

    def forward(self, a, b):
        return self.network(a + b)


class Own(Parts):
    def __init__(self, channels):
        super().__init__(channels)
        self.scale = nn.Parameter(torch.ones(channels))


def test_parts_are_drawn_anew_however_deep_they_are():
    op = Parts(3)
    weight = op.network[0][0].weight
    before = weight.detach().clone()
    nn.init.ones_(op.identity)
    op.reset_parameters()
    assert not weight.equal(before)
    assert op.identity.eq(0).all()


def test_an_operator_with_parameters_of_its_own_must_say_how_they_begin():
    with pytest.raises(
        NotImplementedError, match="Own has parameters of its own, scale, and nothing says"
    ):
        Own(3).reset_parameters()
