import math

import pytest
from lab.report.synthetic import record

from treefold.lab.report.checks import check_record, is_finite


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("name", 5, "`name` is 5; expected text"),
        ("status", None, "`status` is None; expected text"),
        ("seed", "first", "`seed` is 'first'; expected a whole number"),
        ("seconds", "long", "`seconds` is 'long'; expected a number"),
        ("metrics", [1], r"`metrics` is \[1\]; expected entries by name"),
        ("departures", "none", "`departures` is 'none'; expected a list"),
    ],
)
def test_an_entry_of_another_kind_is_named_with_what_was_expected(name, value, reason):
    made = record()
    object.__setattr__(made, name, value)  # as JSON would, whatever the types say
    with pytest.raises(ValueError, match=reason):
        check_record(made)


def test_a_good_record_passes():
    check_record(record())


def test_only_numbers_that_can_be_drawn_are_finite():
    good, bad = (0, -1.5, 10**20), (math.nan, math.inf, True, "1", None, 10**400)
    assert all(map(is_finite, good))
    assert not any(map(is_finite, bad))
