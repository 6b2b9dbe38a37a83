"""Names of aggregators, and the options that go with them."""

import pytest

import treefold


def test_an_option_of_a_name_replaces_its_default():
    made = treefold.aggregator("binary-gru-assoc", 4)
    changed = treefold.aggregator("binary-gru-assoc", 4, associativity=0.5)
    assert made.laws.active == {"associativity": 1.0}
    assert changed.laws.active == {"associativity": 0.5}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("binary-gur", {}, "unknown aggregator 'binary-gur'; did you mean binary-gru"),
        ("binary-gru", {"asociativity": 1}, "unknown option of binary-gru 'asociativity'; did you"),
        ("gru", {"foo": 1}, "unknown option of gru 'foo'; choose from swap, law_nodes"),
        ("gru", {"cell": "lstm"}, "unknown option of gru 'cell'"),
        ("binary-gru", {"operator": "binary-mlp"}, "unknown option of binary-gru 'operator'"),
        ("sum", {"foo": 1}, "sum takes no options; got foo"),
    ],
)
def test_an_unknown_name_or_option_says_which_there_are(name, options, message):
    with pytest.raises(ValueError, match=message):
        treefold.aggregator(name, 4, **options)


def test_an_operator_option_is_added_to_those_that_a_name_stands_for():
    options = {"hidden_channels": 6}
    made = treefold.aggregator("gated-selection-general", 4, operator_options=options)
    usual = treefold.aggregator("gated-selection-general", 4)
    assert made.operator.stretch == usual.operator.stretch == 0.1
    assert (made.operator.hidden.out_features, usual.operator.hidden.out_features) == (12, 8)
    assert options == {"hidden_channels": 6}


def test_an_operator_without_options_says_so():
    with pytest.raises(ValueError, match="option of operator binary-gru 'hidden'; there are none"):
        treefold.LCMAggregation(8, "binary-gru", operator_options={"hidden": 4})
