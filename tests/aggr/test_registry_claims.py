"""Promises of every aggregator of the registry, whatever it computes.

What it may be given is in `test_registry_inputs.py`, what a module must bear in
`test_registry_modules.py`.
"""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    FIXED,
    INDEX,
    NUM_GROUPS,
    PROJECTED,
    SIZES,
    UNSORTED,
    X,
    batch,
    by_hand,
    every,
    every_learned,
    every_monoid,
    few,
    make,
    normal,
    recording,
    seeded,
    set_by_set,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from treefold import Groups, LCMAggregation, RecurrentAggregation, TableRows

NO_ROWS, NO_INDEX = X[:0], INDEX[:0]


# The answer


@every
@few
@given(sizes=SIZES, size=st.integers(0, 12))
def test_a_set_is_aggregated_alike_whatever_else_is_in_the_batch(name, sizes, size):
    module, mine, (theirs, index) = make(name), normal(size, CHANNELS, seed=1), batch(sizes)
    alone = module(mine, torch.zeros(size, dtype=torch.int64), dim_size=1)[0]
    places = torch.randperm(len(mine) + len(theirs), generator=seeded())
    places = torch.cat([places[:size].sort().values, places[size:]])  # mine stay in order
    rows = torch.cat([mine, theirs])[places.argsort()]
    joint = torch.cat([torch.full((size,), len(sizes)), index])[places.argsort()]
    together = module(rows, joint, dim_size=len(sizes) + 1)[-1]
    torch.testing.assert_close(alone, together)


@every
@few
@given(sizes=SIZES)
def test_each_set_comes_to_what_it_does_by_hand(name, sizes):
    module, (x, index) = make(name), batch(sizes)
    for row, rows in zip(module(x, index, dim_size=len(sizes)), x.split(sizes), strict=True):
        torch.testing.assert_close(row, by_hand(name, module, rows), rtol=1e-6, atol=1e-9)


@every
def test_gradients_are_those_of_the_sets_by_hand(name):
    module, x = make(name), X.clone().requires_grad_()
    inputs = [x, *module.parameters()]
    fast = module(x, UNSORTED)
    weight = normal(*fast.shape, seed=2)
    slow = set_by_set(name, module, x, UNSORTED, NUM_GROUPS)
    expected = torch.autograd.grad((slow * weight).sum(), inputs, allow_unused=True)
    for found, right in zip(
        torch.autograd.grad((fast * weight).sum(), inputs), expected, strict=True
    ):
        torch.testing.assert_close(found, right, rtol=1e-6, atol=1e-9)


# Groups of no elements and of one


@every
def test_empty_groups_give_the_identity(name):
    module = make(name)
    empty = module(X, INDEX, dim_size=NUM_GROUPS + 2)[[1, 4, 7, 8]]
    if isinstance(module, LCMAggregation):
        expected = module.operator.identity
    elif isinstance(module, RecurrentAggregation):
        expected = module.cell.output(module.cell.initial)
    else:
        expected = by_hand(name, module, X[:0])  # zero for the fixed ones, as documented
    rounding = 1e-7 if name == "pna-selection" else 0  # PNA's scalers are single precision
    torch.testing.assert_close(empty, expected.expand_as(empty), rtol=rounding, atol=0)


@every
def test_no_elements_at_all_are_empty_groups(name):
    module = make(name)
    expected = module(X, INDEX)[[1, 1, 1]]
    assert torch.equal(module(NO_ROWS, NO_INDEX, dim_size=3), expected)
    assert torch.equal(module(NO_ROWS, ptr=torch.zeros(4, dtype=torch.int64)), expected)
    assert torch.equal(module(NO_ROWS), expected[:1])


@every
@pytest.mark.parametrize("dim_size", [0, None])
def test_no_groups_at_all_give_no_rows(name, dim_size):
    module = make(name)
    assert module(NO_ROWS, NO_INDEX, dim_size=dim_size).shape == (0, module.out_channels)
    towers = module(NO_ROWS.view(0, 2, CHANNELS), NO_INDEX, dim_size=dim_size, dim=0)
    assert towers.shape == (0, 2, module.out_channels)


@every_monoid
def test_one_element_is_itself(name):
    module = make(name)
    expected = module.projected(X) if name in PROJECTED else X
    assert torch.equal(module(X, torch.arange(len(X))), expected)


@every
def test_one_element_per_group_is_the_set_of_that_element(name):
    module = make(name)
    expected = torch.stack([by_hand(name, module, row) for row in X.split(1)])
    torch.testing.assert_close(module(X, torch.arange(len(X))), expected)


# Types of numbers


BATCHES = {
    "ragged": UNSORTED,
    "equal": torch.arange(16) % 4,
    "singles": torch.arange(len(X)),
    "no rows": NO_INDEX,
}


@every
@pytest.mark.parametrize("index", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_output_has_the_type_of_the_rows_and_their_precision(name, dtype, index):
    x, num_groups = X[: len(index)], len(X) + 1
    out = make(name, dtype)(x.to(dtype), index, dim_size=num_groups)
    assert out.dtype == dtype
    tolerance = {torch.float64: 0, torch.float32: 1e-4, torch.bfloat16: 0.15}[dtype]
    exact = make(name)(x, index, dim_size=num_groups)
    torch.testing.assert_close(out.double(), exact, rtol=tolerance, atol=tolerance)


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_have_the_type_of_what_they_belong_to(name, dtype):
    module, x = make(name, dtype), X.to(dtype, copy=True).requires_grad_()
    module(x, UNSORTED).sum().backward()
    for tensor in (x, *module.parameters()):
        assert tensor.grad.dtype == dtype
        assert tensor.grad.isfinite().all()


@every
@pytest.mark.parametrize("index", BATCHES.values(), ids=list(BATCHES))
def test_autocast_changes_precision_and_not_the_type(name, index):
    module, x = make(name, torch.float32), X.float()[: len(index)].requires_grad_()
    exact = module(x, index, dim_size=len(X) + 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = module(x, index, dim_size=len(X) + 1)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, exact, rtol=0.1, atol=0.1)
    out.sum().backward()
    for tensor in (x, *module.parameters()):
        assert tensor.grad.dtype == torch.float32
        assert tensor.grad.isfinite().all()


@every
def test_autocast_takes_rows_that_are_already_half(name):
    module = make(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = module(X.bfloat16(), UNSORTED)
    torch.testing.assert_close(out.double(), make(name)(X, UNSORTED), rtol=0.15, atol=0.15)


# Gradients


def differentiable(name, sizes=(3, 0, 1, 2)):
    """A function of all tensors that can have gradients, and those tensors."""
    module = make(name, channels=2)
    names, tensors = zip(*module.named_parameters(), strict=True) if name not in FIXED else ((), ())
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    x = normal(sum(sizes), 2)

    def function(x, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return functional_call(module, named, (x,), {"index": index, "dim_size": len(sizes)})

    return function, [t.detach().clone().requires_grad_() for t in (x, *tensors)]


@every
def test_gradcheck(name):
    function, inputs = differentiable(name)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)


@every
def test_gradgradcheck(name):
    function, inputs = differentiable(name, (3, 0, 1))
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


class Additions(TorchDispatchMode):
    """Notes each operation that adds rows to rows one by one: how many there are of both."""

    def __init__(self):
        super().__init__()
        self.num_rows = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        accumulates = "index_put" in name and (len(args) > 3 and args[3])
        adds = "index_add" in name or "scatter_add" in name
        if accumulates or (adds and args[1] == 0):
            added = args[2] if "index_put" in name else args[3]
            self.num_rows.append((len(args[0]), len(added)))
        return func(*args, **(kwargs or {}))


@every
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("index", [INDEX, UNSORTED], ids=["sorted", "unsorted"])
def test_gradients_of_plain_rows_are_copied_and_not_added_one_by_one(name, training, index):
    module, x = make(name).train(training), X.clone().requires_grad_()
    with recording(module):
        out = module(x, index)
    with Additions() as additions:
        out.square().sum().backward()
    # Maxima hand on one leaf to many nodes: there gradients have to be added.
    assert (len(X), len(X)) not in additions.num_rows or name == "conjugated-max"
    assert x.grad.isfinite().all()


@every
def test_rows_that_repeat_have_their_gradients_added_up(name):
    module, table = make(name), X[:5].clone().requires_grad_()
    groups, rows = Groups.from_index(UNSORTED, NUM_GROUPS), torch.arange(len(X)) % 4
    outs = [module.aggregate(each, groups) for each in (TableRows(table, rows), table[rows])]
    torch.testing.assert_close(*outs)
    found, expected = (torch.autograd.grad(out.square().sum(), table)[0] for out in outs)
    torch.testing.assert_close(found, expected)


@every
def test_rows_in_no_group_have_no_gradient(name):
    module, x = make(name), normal(12, CHANNELS).requires_grad_()
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], dtype=torch.bool)
    left_out = ~mask.flatten()
    out = module.aggregate(x, Groups.from_mask(mask))
    expected = module(x[~left_out], torch.tensor([0, 0, 0, 2, 2]))
    torch.testing.assert_close(out, expected)
    grads = [torch.autograd.grad(each.square().sum(), x)[0] for each in (out, expected)]
    torch.testing.assert_close(*grads)
    assert not grads[0][left_out].any()


@every_learned
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("num_rows", "num_groups"), [(5, 5), (0, 3), (0, 0)], ids=["singles", "no rows", "no groups"]
)
def test_every_parameter_gets_a_gradient_even_if_no_two_meet(name, num_rows, num_groups, training):
    module = make(name).train(training)
    with recording(module) as penalties:
        out = module(X[:num_rows], torch.arange(num_rows), dim_size=num_groups)
    (out.sum() + sum(penalties or [])).backward()
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@every
def test_rows_get_their_gradient_even_if_parameters_are_frozen(name):
    module, x = make(name), X.clone().requires_grad_()
    expected = torch.autograd.grad(module(x, UNSORTED).square().sum(), x)[0]
    module.requires_grad_(False)
    frozen = torch.autograd.grad(module(x, UNSORTED).square().sum(), x)[0]
    torch.testing.assert_close(frozen, expected)
