"""A table is looked at before any work begins: what cannot be folded is refused in words."""

from datetime import date, datetime
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

import pyarrow.parquet as pq
from distributed.trained import fresh_fold

from treefold.distributed.parquet import Finish
from treefold.distributed.partial_fold import PartialFold
from treefold.distributed.source import find_source, refuse_to_overwrite


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_paths_are_absolute_so_that_workers_elsewhere_find_them(fold, tmp_path, monkeypatch):
    path = write(tmp_path / "in.parquet", user=[1, 2], x=[3, 4])
    monkeypatch.chdir(tmp_path)
    pieces = find_source(path.relative_to(tmp_path), "user", "x", fold).pieces
    assert pieces == [{"file": str(path.resolve()), "row_group": 0, "first_row": 0, "num_rows": 2}]


def test_row_groups_and_files_without_rows_are_passed_over(fold, tmp_path):
    write(tmp_path / "in" / "1.parquet", user=pa.array([], pa.null()), x=pa.array([], pa.null()))
    table = pa.table({"user": [1, 2, 3], "x": [3, 4, 5]})
    with pq.ParquetWriter(tmp_path / "in" / "2.parquet", table.schema) as writer:
        for part in (table.slice(0, 2), table.slice(0, 0), table.slice(2)):
            writer.write_table(part)
    pieces = find_source(tmp_path / "in", "user", "x", fold).pieces
    assert [(piece["first_row"], piece["num_rows"]) for piece in pieces] == [(0, 2), (2, 1)]


def test_a_table_of_no_rows_is_refused(fold, tmp_path):
    path = write(tmp_path / "in.parquet", user=pa.array([], pa.int64()), x=pa.array([], pa.int64()))
    with pytest.raises(ValueError, match=r"in.parquet has no rows; there is nothing to fold"):
        find_source(path, "user", "x", fold)


def test_a_folder_that_is_called_like_a_file_is_a_folder(fold, tmp_path):
    write(tmp_path / "in" / "day.parquet" / "1.parquet", user=[1], x=[3])
    (piece,) = find_source(tmp_path / "in", "user", "x", fold).pieces
    assert piece["file"].endswith("day.parquet/1.parquet")


@pytest.mark.parametrize("name", ["a.parquet", "folder/../a.parquet"])
def test_a_file_that_is_read_is_not_written(fold, tmp_path, name):
    (tmp_path / "folder").mkdir()
    source = find_source(write(tmp_path / "a.parquet", user=[1], x=[3]), "user", "x", fold)
    with pytest.raises(ValueError, match=r"a.parquet would be written, and it is one of the files"):
        refuse_to_overwrite(source, tmp_path / "b.parquet", tmp_path / name)
    refuse_to_overwrite(source, tmp_path / "b.parquet", tmp_path / "b.bad.parquet")


@pytest.mark.parametrize("key", ["file", "row", "problem", "state", "answer"])
def test_a_key_that_is_called_as_a_column_of_the_results_is_refused(fold, tmp_path, key):
    path = write(tmp_path / "in.parquet", **{key: [1], "x": [3]})
    with pytest.raises(ValueError, match=f"the key is called '{key}', like a column of the result"):
        find_source(path, key, "x", fold)


def test_the_key_and_the_column_are_two(fold, tmp_path):
    path = write(tmp_path / "in.parquet", x=[3])
    with pytest.raises(ValueError, match="are both 'x'; name two columns"):
        find_source(path, "x", "x", fold)


def test_two_columns_of_one_name_are_refused(fold, tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["user", "x", "x"])
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="2 columns called 'x', expected one; rename"):
        find_source(tmp_path / "in.parquet", "user", "x", fold)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [([[1]], r"list<element: int64>"), ([{"a": 1}], r"struct<a: int64>")],
)
def test_keys_that_are_no_single_values_are_refused(fold, tmp_path, keys, kind):
    path = write(tmp_path / "in.parquet", user=keys, x=[3])
    with pytest.raises(ValueError, match=rf"the key 'user' holds {kind}; expected integers, texts"):
        find_source(path, "user", "x", fold)


def test_keys_have_one_type_in_all_files_and_nulls_go_with_any(fold, tmp_path):
    write(tmp_path / "1.parquet", user=pa.array([None], pa.null()), x=[3])
    write(tmp_path / "2.parquet", user=pa.array(["a"]).dictionary_encode(), x=[3])
    assert find_source(tmp_path, "user", "x", fold).key_type == pa.string()
    write(tmp_path / "3.parquet", user=[1], x=[3])
    with pytest.raises(ValueError, match=r"holds string in .*2.parquet and int64 in .*3.parquet"):
        find_source(tmp_path, "user", "x", fold)


def test_categories_are_folded_as_what_they_stand_for(fold):
    keys = pa.array(["a", "b", None, "a"]).dictionary_encode()
    found = PartialFold(fold, "user", "x").folded(
        pa.record_batch({"user": keys, "x": [1, 2, 3, 4]}), "in.parquet", 10
    )
    assert found["user"].to_pylist() == ["a", "b", ""]
    assert found["no_key"].to_pylist() == [False, False, True]
    assert found["num_rows"].to_pylist() == [2, 1, 0]
    assert '"row": 12, "problem": "null key"' in found["bad"][2].as_py()


def test_a_batch_names_the_first_hundred_bad_rows_of_a_key_and_counts_all(fold):
    batch = pa.record_batch({"user": [7] * 300, "x": [None, -1] * 150})
    found = PartialFold(fold, "user", "x").folded(batch, "in.parquet", 0)
    lines = found["bad"][0].as_py().splitlines()
    assert found["num_bad"].to_pylist() == [300]
    assert len(lines) == 100
    assert '"row": 99, "problem": "-1, expected' in lines[-1]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.uint64(), 2**64 - 1),
        (pa.float64(), 0.5),
        (pa.bool_(), True),
        (pa.large_string(), "a"),
        (pa.binary(2), b"ab"),
        (pa.date32(), date(2026, 1, 2)),
        (pa.timestamp("us"), datetime(2026, 1, 2)),
        (pa.decimal128(9, 2), Decimal("1.50")),
    ],
    ids=str,
)
def test_keys_come_back_as_they_were_and_so_do_nulls(fold, tmp_path, kind, value):
    path = write(tmp_path / "in.parquet", user=pa.array([value, None, value], kind), x=[1, 2, 3])
    source = find_source(path, "user", "x", fold)
    pieces = pa.Table.from_pylist(source.pieces)
    (partial,) = PartialFold(fold, "user", "x", source.key_type)(pieces)
    found = Finish(None, fold.channels, "user", source.key_type)(partial)
    assert found["user"].type == kind
    assert found["user"].to_pylist() == [value, None]
    assert found["num_rows"].to_pylist() == [2, 0]
