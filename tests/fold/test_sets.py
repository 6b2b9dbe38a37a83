"""Padded, nested, packed and listed sets are one thing said in four ways."""

import math

import jaxtyping
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from trees import normal, seeded

from treefold import BinaryGRU, plan_tree, reduce_sets, tree_reduce
from treefold.algebra import KthMinimum, LogSumExp, Max, Mean, Product, Sum, Variance
from treefold.fold import pack_sets

SIZES = [3, 0, 5, 1]
CU_SEQLENS = torch.tensor([0, 3, 3, 8, 9], dtype=torch.int32)
MASK = torch.arange(5) < torch.tensor(SIZES)[:, None]
SCATTERED = torch.stack([row[torch.randperm(5, generator=seeded(1))] for row in MASK])


def drawn(channels=4):
    return [normal(size, channels, seed=size) for size in SIZES]


def placed(sets, mask):
    """The sets padded with NaN, their elements where the mask is true."""
    padded = torch.full((*mask.shape, sets[0].shape[1]), math.nan, dtype=sets[0].dtype)
    return padded.masked_scatter(mask[..., None], torch.cat(sets))


FORMS = {
    "list": lambda sets: (sets, {}),
    "tuple": lambda sets: (tuple(sets), {}),
    "jagged": lambda sets: (torch.nested.as_nested_tensor(sets, layout=torch.jagged), {}),
    "padded": lambda sets: (pad_sequence(sets, batch_first=True), {"mask": MASK}),
    "scattered": lambda sets: (placed(sets, SCATTERED), {"mask": SCATTERED}),
    "cu_seqlens": lambda sets: (torch.cat(sets), {"cu_seqlens": CU_SEQLENS}),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))


@forms
def test_each_form_folds_to_what_its_sets_do(form):
    op, (x, options) = BinaryGRU(4).double(), form(drawn())
    expected = tree_reduce(op, torch.cat(drawn()), plan_tree(SIZES))
    assert torch.equal(reduce_sets(op, x, **options), expected)


@forms
def test_each_element_has_its_gradient_and_padding_has_none(form):
    op, found = BinaryGRU(4).double(), []
    for given in (form, FORMS["list"]):
        leaves = [rows.requires_grad_() for rows in drawn()]
        x, options = given(leaves)
        out = reduce_sets(op, x, **options)
        found.append(torch.autograd.grad(out.square().sum(), leaves))
    for ours, expected in zip(*found, strict=True):
        assert torch.equal(ours, expected)
    padded = pad_sequence(drawn(), batch_first=True).requires_grad_()
    (of_padding,) = torch.autograd.grad(reduce_sets(op, padded, mask=MASK).sum(), padded)
    assert of_padding[MASK].any()
    assert not of_padding[~MASK].any()


def test_nested_tensors_with_holes_or_of_the_old_layout_are_sets_too():
    rows = normal(3, 6, 4)
    holes = torch.nested.narrow(
        rows, 1, torch.tensor([0, 2, 1]), torch.tensor([3, 4, 1]), layout=torch.jagged
    )
    assert holes.lengths() is not None
    expected = reduce_sets(Sum(), [rows[0, :3], rows[1, 2:], rows[2, 1:2]])
    assert torch.equal(reduce_sets(Sum(), holes), expected)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_old_layout_of_nested_tensors_is_taken():
    old = torch.nested.as_nested_tensor(drawn(), layout=torch.strided)
    assert torch.equal(reduce_sets(Sum(), old), reduce_sets(Sum(), drawn()))


def test_features_may_have_any_axes_and_none():
    heads = [normal(size, 2, 3, seed=size) for size in SIZES]
    out = reduce_sets(Sum(), pad_sequence(heads, batch_first=True), mask=MASK)
    torch.testing.assert_close(out, torch.stack([rows.sum(0) for rows in heads]))
    numbers = torch.tensor([[5, 2, 9], [7, 1, 1]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert reduce_sets(Sum(), numbers, mask=mask).tolist() == [7, 7]


def test_an_exact_monoid_encodes_elements_and_decodes_answers():
    sets = [torch.tensor([3.0, 1.0, 2.0]), torch.tensor([8.0, 4.0])]
    assert reduce_sets(Mean(), sets).tolist() == [2.0, 6.0]
    assert reduce_sets(KthMinimum(2), sets).tolist() == [2.0, 8.0]
    smallest, mean = reduce_sets(Product(Max(), Mean()), sets)
    assert (smallest.tolist(), mean.tolist()) == ([3.0, 8.0], [2.0, 6.0])


def test_the_bracketing_may_be_chosen():
    op, sets = BinaryGRU(4).double(), drawn()
    expected = tree_reduce(op, torch.cat(sets), plan_tree(SIZES, "random", seeded()))
    assert torch.equal(reduce_sets(op, sets, bracketing="random", generator=seeded()), expected)


# Weights


WHOLE = [2, 1, 3, 0, 4, 1, 2, 1, 5]


@forms
@pytest.mark.parametrize(
    "monoid", [Sum(), Mean(), Variance(), Variance(True), LogSumExp()], ids=repr
)
def test_a_whole_weight_repeats_its_element(form, monoid):
    sets, weights = drawn(), torch.tensor(WHOLE).double().split(SIZES)
    x, options = form(sets)
    weight = form([each[:, None] for each in weights])[0]
    if isinstance(weight, list | tuple):
        weight = [each[:, 0] for each in weight]
    elif weight.is_nested:
        weight = torch.nested.as_nested_tensor(list(weights), layout=torch.jagged)
    else:
        weight = weight[..., 0]
    found = reduce_sets(monoid, x, weight=weight, **options)
    pairs = zip(sets, weights, strict=True)
    repeated = [rows.repeat_interleave(count.long(), 0) for rows, count in pairs]
    expected = reduce_sets(monoid, repeated)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_weights_may_be_fractions_and_have_gradients():
    x, weight = normal(5, 2), torch.tensor([0.5, 0.25, 0.25, 0.1, 0.3]).double().requires_grad_()
    for monoid in (Sum(), Mean(), Variance(), LogSumExp()):

        def answer(weight, monoid=monoid):
            return reduce_sets(monoid, x, cu_seqlens=torch.tensor([0, 3, 5]), weight=weight)

        assert torch.autograd.gradcheck(answer, weight)
    means = reduce_sets(Mean(), x, cu_seqlens=torch.tensor([0, 3, 5]), weight=weight)
    torch.testing.assert_close(means[0], (x[:3] * weight[:3, None]).sum(0))


def test_a_product_takes_weights_where_all_of_it_does():
    sets, weights = [torch.tensor([3.0, 6.0])], [torch.tensor([2.0, 1.0])]
    found = reduce_sets(Product(Sum(), Mean()), sets, weight=weights)
    assert [each.tolist() for each in found] == [[12.0], [4.0]]
    with pytest.raises(ValueError, match="Max takes no weights; they have a meaning for Sum, Mean"):
        reduce_sets(Product(Sum(), Max()), sets, weight=weights)
    with pytest.raises(ValueError, match="BinaryGRU takes no weights; some exact monoids do"):
        reduce_sets(BinaryGRU(2), [torch.ones(2, 2)], weight=weights)


# What is refused


X = normal(4, 5, 3)
BAD = {
    "nothing": (X, {}, r"nothing says which rows sit together; give a mask or cu_seqlens"),
    "no tensor": (X.numpy(), {}, "x is a ndarray; expected a tensor, or a list of tensors"),
    "an empty list": ([], {}, r"empty list; expected a tensor \[size, \*feature\] for each set"),
    "a list of lists": ([[1.0]], {}, "entry 0 of x is a list; expected a tensor"),
    "a number": ([X[0], X.sum()], {}, "entry 1 of x is a number; expected a tensor"),
    "other widths": ([X[0], X[0, :, :2]], {}, r"entries 0 and 1 of x have shapes \(5, 3\) and \(5"),
    "mask of integers": (X, {"mask": MASK.int()}, "mask is torch.int32; expected torch.bool, true"),
    "mask of a list": (X, {"mask": MASK.tolist()}, "mask is a list; expected torch.bool"),
    "mask of other sets": (X, {"mask": MASK[:3]}, r"mask has shape \(3, 5\) and x \(4, 5, 3\)"),
    "mask elsewhere": (X, {"mask": MASK.to("meta")}, "mask is on meta, but x is on cpu"),
    "two ways": ([X[0]], {"mask": MASK}, "x is a list of sets, which says itself what mask says"),
    "both": (X, {"mask": MASK, "cu_seqlens": CU_SEQLENS}, "x is a padded batch.*leave cu_seqlens"),
    "too long": (X[0], {"cu_seqlens": torch.tensor([0, 9])}, "cu_seqlens runs from 0 to 9; expec"),
    "falling": (X[0], {"cu_seqlens": torch.tensor([0, 4, 3, 5])}, "cu_seqlens decreases from 4 to"),
    "weights of one form": (X, {"mask": MASK, "weight": [X[0]]}, "weight is a list and x a Tensor"),
    "weights of a shape": (X, {"mask": MASK, "weight": X}, "weight has shape .*; expected that of"),
    "weights of other sizes": (
        [X[0], X[1]],
        {"weight": [X[0, :2, 0], X[0, :, 0]]},
        r"sets of weights have sizes \[2, 5\], sets of x \[5, 5\]",
    ),
    "too few weights": (
        X[0],
        {"cu_seqlens": torch.tensor([0, 5]), "weight": torch.ones(4)},
        r"weight has shape \(4,\); expected \(5,\), one for each row",
    ),
}


@pytest.mark.parametrize(("x", "options", "message"), BAD.values(), ids=list(BAD))
def test_what_is_no_set_is_refused(x, options, message, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside of tests
    with pytest.raises(ValueError, match=message):
        reduce_sets(Sum(), x, **options)


def test_packing_keeps_rows_that_are_packed_already():
    rows = normal(9, 4)
    nested = torch.nested.nested_tensor_from_jagged(rows, CU_SEQLENS)
    for packed in (pack_sets(rows, cu_seqlens=CU_SEQLENS), pack_sets(nested)):
        assert packed.rows.data_ptr() == rows.data_ptr()
        assert packed.offsets.tolist() == CU_SEQLENS.tolist()
