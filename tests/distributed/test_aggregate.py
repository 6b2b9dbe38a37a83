"""A model as a plain aggregation of Ray: a row that it cannot fold is an error."""

import pytest

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

import pandas as pd
from distributed.ray_warnings import ignored
from distributed.trained import fresh_fold

from treefold.distributed import MonoidAggregate

pytestmark = ignored


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def test_a_bad_row_in_a_plain_aggregation_is_an_error_that_names_it(fold):
    aggregation = MonoidAggregate(fold, on="x")
    with pytest.raises(ValueError, match=r"1 of 3 rows .* row 1 of column 'x', is null"):
        aggregation.aggregate_block(pa.table({"x": [1, None, 2]}))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a"], "column 'x' holds .*string; expected integers from 0 to 255, which"),
        ([0.5, None], "column 'x' holds double; expected .* cast whole numbers first"),
    ],
)
def test_a_plain_aggregation_refuses_other_types(fold, column, message):
    with pytest.raises(ValueError, match=message):
        MonoidAggregate(fold, on="x").aggregate_block(pa.table({"x": column}))
    with pytest.raises(ValueError, match=message):
        MonoidAggregate(fold, on="x").aggregate_block(pd.DataFrame({"x": column}))


def test_a_plain_aggregation_may_skip_a_block_of_nulls(fold):
    aggregation = MonoidAggregate(fold, on="x", skip_nulls=True)
    assert aggregation.aggregate_block(pa.table({"x": pa.nulls(3)})) is None
