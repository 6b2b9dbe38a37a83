"""Bad input is refused in words that name what was given and what was expected."""

import math

import pytest
import torch
from aggr.cases import CHANNELS, every, every_learned, make, normal

import treefold
from treefold import LCMAggregation, RecurrentAggregation
from treefold.operators import RecurrentGRU

X = normal(4, CHANNELS)
INDEX = torch.tensor([0, 0, 1, 2])

BAD_INPUTS = {
    "an index beyond dim_size": ({"index": INDEX, "dim_size": 2}, r"index holds 2.* 0 to 1"),
    "no room for any group": ({"index": INDEX, "dim_size": 0}, r"index holds 2"),
    "a negative index": ({"index": torch.tensor([0, -3, 1, 2])}, r"index holds -3.* from 0"),
    "a negative dim_size": ({"index": INDEX, "dim_size": -1}, r"-1.*expected 0 or more"),
    "a float index": ({"index": INDEX.float()}, r"index is torch\.float32.*expected integers"),
    "NaN in the index": (
        {"index": torch.tensor([0, math.nan, 1, 2])},
        r"index is torch\.float32.*expected integers",
    ),
    "a boolean index": ({"index": INDEX > 0}, r"index is torch\.bool.*expected integers"),
    "an index of two axes": (
        {"index": INDEX.view(4, 1)},
        r"index is torch\.int64 of shape \(4, 1\).*one dimension",
    ),
    "an index of no axes": ({"index": INDEX[0]}, r"index"),
    "a short index": ({"index": INDEX[:3]}, r"index has 3 entries.*4 rows"),
    "a long index": ({"index": torch.zeros(9, dtype=torch.int64)}, r"index has 9 entries.*4 rows"),
    "a ptr that ends early": (
        {"ptr": torch.tensor([0, 1, 3])},
        r"ptr runs from 0 to 3; expected from 0 to 4",
    ),
    "a ptr that ends late": (
        {"ptr": torch.tensor([0, 1, 6])},
        r"ptr runs from 0 to 6; expected from 0 to 4",
    ),
    "a ptr that starts late": (
        {"ptr": torch.tensor([1, 2, 4])},
        r"ptr runs from 1 to 4; expected from 0 to 4",
    ),
    "a ptr that decreases": ({"ptr": torch.tensor([0, 3, 2, 4])}, r"ptr decreases.*expected"),
    "an empty ptr": ({"ptr": INDEX[:0]}, r"ptr is empty; expected"),
    "a float ptr": ({"ptr": torch.tensor([0.0, 4.0])}, r"ptr is torch\.float32.*expected integers"),
    "a ptr of two axes": ({"ptr": torch.tensor([[0, 4]])}, r"ptr is .*shape \(1, 2\)"),
    "a ptr of another dim_size": (
        {"ptr": torch.tensor([0, 1, 4]), "dim_size": 3},
        r"dim_size is 3.*ptr describes 2 groups",
    ),
    "index and ptr that disagree": (
        {"index": INDEX, "ptr": torch.tensor([0, 1, 2, 4])},
        r"index and ptr",
    ),
    "index and ptr of different lengths": (
        {"index": INDEX[:3], "ptr": torch.tensor([0, 2, 3, 4])},
        r"index",
    ),
    "a float index beside a ptr": (
        {"index": INDEX + 0.5, "ptr": torch.tensor([0, 2, 3, 4])},
        r"index is torch\.float32.*expected integers",
    ),
    "dim beyond the axes": ({"index": INDEX, "dim": 2}, r"dim is 2.*2 axes \(4, 4\)"),
    "dim before the axes": ({"index": INDEX, "dim": -3}, r"dim is -3.*2 axes \(4, 4\)"),
    "a limit that would cut a group": (
        {"index": torch.tensor([0, 0, 0, 1]), "max_num_elements": 2},
        r"a group has 3 elements.*max_num_elements is 2",
    ),
}


@every
@pytest.mark.parametrize(("given", "message"), BAD_INPUTS.values(), ids=list(BAD_INPUTS))
def test_bad_groups_are_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        make(name)(X, **given)


ELSEWHERE = {
    "index on another device": (
        {"index": INDEX.to("meta")},
        r"index is on meta, but x is on cpu; expected both on one device: give index\.to\(x\.dev",
    ),
    "ptr on another device": (
        {"ptr": torch.tensor([0, 1, 4]).to("meta")},
        r"ptr is on meta, but x is on cpu; expected both on one device: give ptr\.to\(x\.device\)",
    ),
    "a list as index": (
        {"index": INDEX.tolist()},
        r"index is a list; expected a tensor: give torch\.as_tensor\(index\)",
    ),
    "an array as index": ({"index": INDEX.numpy()}, r"index is a ndarray; expected a tensor: give"),
    "a list as ptr": ({"ptr": [0, 1, 4]}, r"ptr is a list; expected a tensor: give torch\.as_ten"),
    "an array as ptr": (
        {"ptr": torch.tensor([0, 1, 4]).numpy()},
        r"ptr is a ndarray; expected a tensor: give torch\.as_tensor\(ptr\)",
    ),
    "a sparse index": (
        {"index": INDEX.to_sparse()},
        r"index has layout torch\.sparse_coo; expected torch\.strided: give index\.to_dense\(\)",
    ),
}


@every
@pytest.mark.parametrize(("given", "message"), ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_what_is_no_tensor_beside_the_rows_is_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        make(name)(X, **given)


ODD_ROWS = {
    "sparse": (
        X.to_sparse(),
        r"x has layout torch\.sparse_coo; expected torch\.strided: give x\.to_",
    ),
    "a list of lists": (X.tolist(), "entry 0 of x is a list; expected a tensor"),
    "nothing": (None, r"x is a NoneType; expected a tensor: give torch\.as_tensor\(x\)"),
    "nested": (
        torch.nested.nested_tensor([X[:1], X[1:]], layout=torch.jagged),
        r"index is given, but a list of sets, a nested tensor, .*; leave index out",
    ),
    "without values": (X.to("meta"), r"index is on cpu, but x is on meta; expected both on one"),
}


@every
@pytest.mark.parametrize(("rows", "message"), ODD_ROWS.values(), ids=list(ODD_ROWS))
def test_rows_that_are_no_plain_tensor_are_refused(name, rows, message):
    with pytest.raises(ValueError, match=message):
        make(name)(rows, INDEX)


@every
def test_rows_without_values_need_a_dim_size(name):
    with pytest.raises(ValueError, match=r"dim_size is missing.*give it, such as dim_size=x"):
        make(name)(X.to("meta"), INDEX.to("meta"))


@every
@pytest.mark.parametrize("width", [CHANNELS - 1, 1])
def test_wrong_channels_are_refused(name, width):
    with pytest.raises(ValueError, match=rf"\(4, {width}\); expected \[n, \.\.\., {CHANNELS}\]"):
        make(name)(normal(4, width), INDEX)


@every_learned
def test_rows_without_channels_are_refused(name):
    with pytest.raises(ValueError, match=rf"\(4,\); expected \[n, \.\.\., {CHANNELS}\]"):
        make(name)(normal(4), INDEX, dim=0)


@every
def test_a_number_is_no_set_of_rows(name):
    with pytest.raises(ValueError, match=r"dim is -2, but x has 0 axes"):
        make(name)(torch.tensor(1.0))


@every
def test_nothing_is_cut_off_where_the_limit_is_met(name):
    module, index = make(name), torch.tensor([0, 0, 0, 1])
    assert torch.equal(module(X, index, max_num_elements=3), module(X, index))


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("binary_gru", "binary-gru"), ("meen", "mean"), ("conjugate-sum", "conjugated-sum")],
)
def test_unknown_aggregators_are_refused_with_near_names(wrong, near):
    with pytest.raises(ValueError, match=rf"unknown aggregator '{wrong}'; did you mean .*{near}"):
        treefold.aggregator(wrong, 4)


def test_names_like_no_other_get_the_whole_list():
    with pytest.raises(ValueError, match="unknown aggregator 'xyzzy'; choose from sum, mean, max"):
        treefold.aggregator("xyzzy", 4)


BAD_OPTIONS = {
    "operator": (LCMAggregation, {"operator": "binary-gnu"}, "unknown operator.*binary-gru"),
    "cell": (RecurrentAggregation, {"cell": "gur"}, "unknown cell 'gur'.*gru"),
    "bracketing": (
        LCMAggregation,
        {"bracketing": "blanced"},
        "unknown bracketing 'blanced'.*balanced",
    ),
    "eval_bracketing": (LCMAggregation, {"eval_bracketing": "left"}, "unknown bracketing 'left'"),
    "negative weight": (LCMAggregation, {"associativity": -1.0}, "weight of associativity is -1"),
    "infinite weight": (
        LCMAggregation,
        {"commutativity": math.inf},
        "commutativity is inf; expected",
    ),
    "NaN weight": (LCMAggregation, {"identity": math.nan}, "identity is nan; expected"),
    "negative swap": (RecurrentAggregation, {"swap": -0.5}, "weight of swap is -0.5; expected"),
    "no nodes": (LCMAggregation, {"law_nodes": 0}, "law_nodes is 0; expected 1 or more, or None"),
    "no places": (RecurrentAggregation, {"law_nodes": 0}, "law_nodes is 0; expected 1 or more"),
    "reduction": (
        LCMAggregation,
        {"law_reduction": "max"},
        "reduction is 'max'; expected 'sum' or",
    ),
    "flag": (LCMAggregation, {"shuffle": "no"}, "shuffle is 'no'; expected True or False"),
    "flag of a chain": (RecurrentAggregation, {"shuffle": 1}, "shuffle is 1; expected True or"),
    "laws without weights": (
        LCMAggregation,
        {"laws": [treefold.ASSOCIATIVITY]},
        r"laws is \[.*; expected a weight for each: {law: weight}",
    ),
    "no orders": (RecurrentAggregation, {"permutations": 0}, "0 permutations; expected 1 or more"),
    "operator's width": (
        LCMAggregation,
        {"operator": treefold.BinaryGRU(3)},
        "operator has 3 channels; expected 4",
    ),
    "cell's width": (
        RecurrentAggregation,
        {"cell": RecurrentGRU(3)},
        "cell has 3 channels; expected 4",
    ),
}


@pytest.mark.parametrize(
    ("kind", "options", "message"), BAD_OPTIONS.values(), ids=list(BAD_OPTIONS)
)
def test_bad_options_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(4, **options)


@every
@pytest.mark.parametrize("num_rows", [5, 7])
def test_rows_that_are_not_those_of_the_groups_are_refused(name, num_rows):
    groups = treefold.Groups.from_sizes([4, 2])
    with pytest.raises(ValueError, match=f"{num_rows} rows, but the groups are for 6"):
        make(name).aggregate(normal(num_rows, CHANNELS), groups)


@pytest.mark.parametrize("channels", [-1, 0, 16.0, "16", True])
@every
def test_channels_that_are_no_width_are_refused(name, channels):
    message = rf"channels is {channels!r}; expected a whole number, 1 or more"
    with pytest.raises(ValueError, match=message):
        treefold.aggregator(name, channels)


@every
def test_an_edge_index_is_recognised(name):
    edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    with pytest.raises(ValueError, match=r"shape \(2, 4\), like an edge_index.*edge_index\[1\]"):
        make(name)(X, edge_index)


def test_index_and_ptr_may_end_in_groups_without_rows():
    index, ptr = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 4, 4])
    assert torch.equal(make("sum")(X, index, ptr=ptr), make("sum")(X, ptr=ptr))
    with pytest.raises(ValueError, match="index and ptr make groups of different sizes"):
        make("sum")(X, index + 5, ptr=ptr)
