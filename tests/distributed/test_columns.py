"""Columns are sorted into good rows and bad ones, and those of another type are refused."""

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

from distributed.trained import fresh_fold

from treefold.distributed.columns import check_rows, check_type


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def test_integers_out_of_range_are_bad_and_the_rest_is_taken(fold):
    checked = check_rows(pa.chunked_array([[3, -1], [None, 256, 255]]), fold)
    assert checked.x.tolist() == [3, 255]
    assert checked.good.tolist() == [0, 4]
    assert checked.problems == {
        1: "-1, expected an integer from 0 to 255",
        2: "null",
        3: "256, expected an integer from 0 to 255",
    }


def test_an_integer_that_needs_all_64_bits_is_a_bad_row(fold):
    checked = check_rows(pa.array([2**63, 7, 2**64 - 1], pa.uint64()), fold)
    assert checked.x.tolist() == [7]
    assert checked.problems[2] == f"{2**64 - 1}, expected an integer from 0 to 255"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32()])
def test_narrow_integers_are_integers(fold, kind):
    assert check_rows(pa.array([0, 127], kind), fold).x.tolist() == [0, 127]


def test_a_column_of_nulls_alone_has_only_bad_rows(fold):
    check_type(pa.null(), fold, "x")
    checked = check_rows(pa.nulls(2), fold)
    assert checked.problems == {0: "null", 1: "null"}
    assert len(checked.x) == 0


def test_floats_are_refused_with_what_to_do(fold):
    with pytest.raises(ValueError, match=r"'x' holds double; expected .* cast whole numbers first"):
        check_type(pa.float64(), fold, "x")
