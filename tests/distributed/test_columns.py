"""Columns are sorted into good rows and bad ones, and those of another type are refused."""

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

from distributed.trained import fresh_fold

from treefold import GatedSelection, LCMAggregation
from treefold.distributed import ModelFold
from treefold.distributed.columns import as_column, as_rows, check_rows, check_type


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def test_integers_out_of_range_are_bad_and_the_rest_is_taken(fold):
    checked = check_rows(pa.chunked_array([[3, -1], [None, 256, 255]]), fold)
    assert checked.x.tolist() == [3, 255]
    assert checked.good.tolist() == [0, 4]
    assert checked.bad.tolist() == [1, 2, 3]
    assert checked.problems.to_pylist() == [
        "-1, expected an integer from 0 to 255",
        "null",
        "256, expected an integer from 0 to 255",
    ]


def test_an_integer_that_needs_all_64_bits_is_a_bad_row(fold):
    checked = check_rows(pa.array([2**63, 7, 2**64 - 1], pa.uint64()), fold)
    assert checked.x.tolist() == [7]
    assert checked.problems[1].as_py() == f"{2**64 - 1}, expected an integer from 0 to 255"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32()])
def test_narrow_integers_are_integers(fold, kind):
    assert check_rows(pa.array([0, 127], kind), fold).x.tolist() == [0, 127]


def test_a_column_of_nulls_alone_has_only_bad_rows(fold):
    check_type(pa.null(), fold, "x")
    checked = check_rows(pa.nulls(2), fold)
    assert checked.problems.to_pylist() == ["null", "null"]
    assert len(checked.x) == 0


def test_floats_are_refused_with_what_to_do(fold):
    with pytest.raises(ValueError, match=r"'x' holds double; expected .* cast whole numbers first"):
        check_type(pa.float64(), fold, "x")


def vectors(rows):
    return pa.array(rows, pa.list_(pa.float32()))


def test_vectors_of_the_wrong_width_or_with_a_number_missing_are_bad():
    fold = ModelFold.of(GatedSelection(2))
    checked = check_rows(vectors([[1, 2], None, [3], [float("inf"), 4], [5, None], [6, 7]]), fold)
    assert checked.x.tolist() == [[1, 2], [6, 7]]
    assert checked.good.tolist() == [0, 5]
    assert dict(zip(checked.bad.tolist(), checked.problems.to_pylist(), strict=True)) == {
        1: "null",
        2: "width 1, expected 2",
        3: "inf at place 0, expected a number",
        4: "nan at place 1, expected a number",
    }


def test_vectors_are_no_states_of_a_model_that_encodes_integers(fold):
    kind = pa.list_(pa.float32(), fold.none.shape[1])
    message = r"from 0 to 255, which the model encodes; if these are states .* --states"
    with pytest.raises(ValueError, match=message):
        check_type(kind, fold, "x")
    check_type(kind, fold.takes_states(), "x")
    with pytest.raises(ValueError, match="holds int64; expected lists of 8 floating-point numbers"):
        check_type(pa.int64(), fold.takes_states(), "x")


def test_a_model_takes_vectors_as_wide_as_its_encoder_does():
    module = LCMAggregation(4, project=torch.nn.Linear(3, 4))
    fold = ModelFold.of(module)
    assert check_rows(vectors([[1, 2, 3], [1, 2, 3, 4]]), fold).bad.tolist() == [1]
    x = torch.randn(2, 3)
    assert fold.states(x).equal(module.project(x))


@pytest.mark.parametrize("rows", [torch.arange(5), torch.randn(5, 3)], ids=["integers", "vectors"])
def test_rows_come_back_from_columns_and_parts_of_columns(rows):
    column = as_column(rows)
    assert as_rows([column]).equal(rows)
    assert as_rows([column[3:], column[:0], column[1:2]]).equal(rows[[3, 4, 1]])
    present = torch.tensor([True, False, True, True, False])
    assert as_column(rows, present).is_valid().to_pylist() == present.tolist()
