"""Every aggregator takes sets that are padded, nested, packed or listed, and some take weights."""

import pytest
import torch
from aggr.cases import CHANNELS, every, make, normal, recording
from fold.test_sets import CU_SEQLENS, FORMS, MASK, SIZES, drawn, forms
from torch.nn.utils.rnn import pad_sequence
from torch_geometric.nn import aggr as pyg

import treefold
from treefold import FixedAggregation, LCMAggregation, MonoidAggregation, static_plans
from treefold.aggr import MedianAggregation
from treefold.algebra import Max, Mean, Sum, Variance

INDEX = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
PLAIN = torch.cat(drawn(CHANNELS))


@every
@forms
@pytest.mark.parametrize("static", [False, True], ids=["planned", "static"])
def test_each_form_gives_what_an_index_does(name, form, static):
    module, (x, options) = make(name), form(drawn(CHANNELS))
    expected = module(PLAIN, INDEX, dim_size=len(SIZES))
    if not static:
        assert torch.equal(module(x, **options), expected)
        return
    with static_plans(8):
        torch.testing.assert_close(module(x, **options), expected)


@every
@pytest.mark.parametrize("static", [False, True], ids=["planned", "static"])
def test_padding_gets_no_gradient_whatever_it_holds(name, static):
    module = make(name).train()
    padded = pad_sequence(drawn(CHANNELS), batch_first=True, padding_value=float("nan"))
    padded.requires_grad_()
    with recording(module), static_plans(8) if static else torch.enable_grad():
        if static and name in ("gated-selection-general", "finite-selection"):
            module.eval()  # random trees are not made inside
        module(padded, mask=MASK).square().sum().backward()
    assert padded.grad.isfinite().all()
    assert padded.grad[MASK].any()
    assert not padded.grad[~MASK].any()
    assert all(p.grad.isfinite().all() for p in module.parameters())


def test_law_losses_at_nodes_are_those_of_the_sets_without_padding():
    module = LCMAggregation(CHANNELS, associativity=1.0, commutativity=1.0, shuffle=False).double()
    losses = []
    for form in ("list", "padded"):
        x, options = FORMS[form](drawn(CHANNELS))
        with static_plans(8), treefold.record_penalties() as penalties:
            module(x, **options)
        losses.append(penalties.by_law())
    assert losses[0]["associativity"] > 0
    assert losses[1] == pytest.approx(losses[0])


def test_heads_are_aggregated_side_by_side():
    module, sets = make("binary-gru"), [normal(size, 2, CHANNELS, seed=size) for size in SIZES]
    out = module(pad_sequence(sets, batch_first=True), mask=MASK)
    for head in range(2):
        torch.testing.assert_close(out[:, head], module([rows[:, head] for rows in sets]))


def test_answers_of_several_monoids_have_one_row_per_set():
    module = MonoidAggregation(treefold.algebra.Product(Max(), Mean()))
    x = pad_sequence(drawn(CHANNELS), batch_first=True)
    with static_plans(8):
        static = module(x, mask=MASK)
    for found, expected in zip(static, module(drawn(CHANNELS)), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("word", ["index", "ptr", "dim_size", "dim"])
@pytest.mark.parametrize("form", ["list", "padded", "jagged"])
def test_what_the_form_says_already_is_refused(form, word):
    x, options = FORMS[form](drawn(CHANNELS))
    given = {"index": INDEX, "ptr": CU_SEQLENS, "dim_size": 4, "dim": 0}[word]
    with pytest.raises(ValueError, match=f"{word} is given, but a list of sets.*leave {word} out"):
        make("sum")(x, **options, **{word: given})


@every
def test_faults_of_sets_have_their_names(name):
    with pytest.raises(ValueError, match="cu_seqlens runs from 0 to 7; expected from 0 to 9"):
        make(name)(PLAIN, cu_seqlens=torch.tensor([0, 7]))
    with pytest.raises(ValueError, match="a group has 5 elements, but max_num_elements is 4"):
        make(name)(drawn(CHANNELS), max_num_elements=4)


# Weights


WHOLE = torch.tensor([2, 1, 3, 0, 4, 1, 2, 1, 5]).double()
UNSORTED = torch.tensor([3, 0, 2, 2, 0, 2, 2, 0, 2])
WEIGHED = {
    "sum": lambda: make("sum"),
    "mean": lambda: make("mean"),
    "std": lambda: make("std"),
    "var": lambda: FixedAggregation(pyg.VarAggregation(), CHANNELS),
    "Sum": lambda: MonoidAggregation(Sum()),
    "Variance": lambda: MonoidAggregation(Variance()),
}
weighed = pytest.mark.parametrize("kind", WEIGHED.values(), ids=list(WEIGHED))


@weighed
@pytest.mark.parametrize("static", [False, True], ids=["planned", "static"])
def test_a_whole_weight_repeats_its_row(kind, static):
    module, repeats = kind(), WHOLE.long()
    expected = module(
        PLAIN.repeat_interleave(repeats, 0), UNSORTED.repeat_interleave(repeats), dim_size=5
    )
    with static_plans(32) if static else torch.enable_grad():
        found = module(PLAIN, UNSORTED, dim_size=5, weight=WHOLE)
    torch.testing.assert_close(found, expected, equal_nan=True)


@weighed
@forms
def test_weights_come_in_the_form_of_the_rows(kind, form):
    module, (x, options) = kind(), form(drawn(CHANNELS))
    expected = module(PLAIN, INDEX, dim_size=len(SIZES), weight=WHOLE)
    weights = list(WHOLE.split(SIZES))
    if isinstance(x, list | tuple):
        weight = weights
    elif x.is_nested:
        weight = torch.nested.as_nested_tensor(weights, layout=torch.jagged)
    elif "mask" in options:
        weight = torch.zeros(MASK.shape).double().masked_scatter(options["mask"], WHOLE)
    else:
        weight = WHOLE
    torch.testing.assert_close(module(x, weight=weight, **options), expected, equal_nan=True)
    with static_plans(8):
        static = module(x, weight=weight, **options)
    torch.testing.assert_close(static, expected, equal_nan=True)


@weighed
def test_weights_of_one_change_nothing(kind):
    module, ones = kind(), torch.ones(len(PLAIN))
    found = module(PLAIN, UNSORTED, weight=ones)
    torch.testing.assert_close(found, module(PLAIN, UNSORTED), equal_nan=True)
    towers = PLAIN.view(9, 2, 2).movedim(0, 1)
    if not isinstance(module, FixedAggregation):
        along = module(towers, UNSORTED, dim=1, weight=WHOLE)
        flat = module(PLAIN, UNSORTED, weight=WHOLE).view(4, 2, 2)
        torch.testing.assert_close(along.movedim(1, 0), flat, equal_nan=True)


@weighed
def test_weights_have_gradients(kind):
    module, weight = kind(), (WHOLE + 0.5).requires_grad_()
    x = PLAIN.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, w: module(x, INDEX, dim_size=4, weight=w)[[0, 2]], (x, weight)
    )


@pytest.mark.parametrize("name", [name for name in treefold.AGGREGATORS if name not in WEIGHED])
def test_where_a_weight_has_no_meaning_it_is_refused(name):
    with pytest.raises(ValueError, match="takes no weight; sum, mean and std do"):
        make(name)(PLAIN, UNSORTED, weight=WHOLE)


def test_a_median_and_a_maximum_take_no_weight():
    with pytest.raises(ValueError, match=r"MedianAggregation.* takes no weight"):
        MedianAggregation()(PLAIN, UNSORTED, weight=WHOLE)
    with pytest.raises(ValueError, match="Max takes no weights; they have a meaning for Sum"):
        MonoidAggregation(Max())(PLAIN, UNSORTED, weight=WHOLE)


@weighed
def test_weights_of_another_length_are_refused(kind):
    with pytest.raises(ValueError, match=r"weight has shape \(8,\); expected \(9,\), one for each"):
        kind()(PLAIN, UNSORTED, weight=WHOLE[:8])
