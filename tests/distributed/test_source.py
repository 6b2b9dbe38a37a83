"""A table is looked at before any work begins: what cannot be folded is refused in words."""

from datetime import date, time
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import pyarrow.compute as pc
import pyarrow.parquet as pq
from distributed.trained import fresh_fold

from treefold.distributed import fold_table
from treefold.distributed.source import find_source


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
    source = find_source(path.relative_to(tmp_path), "user", "x", fold)
    assert source.files == {path.resolve(): [2]}


def test_row_groups_and_files_without_rows_are_passed_over(fold, tmp_path):
    write(tmp_path / "in" / "1.parquet", user=pa.array([], pa.null()), x=pa.array([], pa.null()))
    table = pa.table({"user": [1, 2, 3], "x": [3, 4, 5]})
    with pq.ParquetWriter(tmp_path / "in" / "2.parquet", table.schema) as writer:
        for part in (table.slice(0, 2), table.slice(0, 0), table.slice(2)):
            writer.write_table(part)
    source = find_source(tmp_path / "in", "user", "x", fold)
    (piece,) = source.pieces(100)
    (block,) = source.blocks(piece)
    assert (block.first_row, block.keys.to_pylist()) == (0, [1, 2, 3])


@pytest.mark.parametrize("groups", [[10], [3, 3, 4], [1] * 10, [9, 1], [2, 7, 1]], ids=str)
@pytest.mark.parametrize("most_rows", [1, 4, 6, 100])
def test_blocks_are_the_same_however_a_file_is_cut(fold, tmp_path, monkeypatch, groups, most_rows):
    monkeypatch.setattr("treefold.distributed.source.ROWS_PER_BLOCK", 4)
    table = pa.table({"user": range(10), "x": range(10)})
    with pq.ParquetWriter(tmp_path / "in.parquet", table.schema) as writer:
        first = 0
        for count in groups:
            writer.write_table(table.slice(first, count))
            first += count
    source = find_source(tmp_path / "in.parquet", "user", "x", fold)
    pieces = source.pieces(most_rows)
    blocks = [block for piece in pieces for block in source.blocks(piece)]
    assert [(block.first_row, block.keys.to_pylist()) for block in blocks] == [
        (0, [0, 1, 2, 3]),
        (4, [4, 5, 6, 7]),
        (8, [8, 9]),
    ]
    assert all(block.keys.equals(block.values) for block in blocks)
    if most_rows == 100:
        assert len(pieces) == 1


def test_a_table_of_no_rows_is_refused(fold, tmp_path):
    path = write(tmp_path / "in.parquet", user=pa.array([], pa.int64()), x=pa.array([], pa.int64()))
    with pytest.raises(ValueError, match=r"in.parquet has no rows; there is nothing to fold"):
        find_source(path, "user", "x", fold)


def test_a_folder_that_is_called_like_a_file_is_a_folder(fold, tmp_path):
    write(tmp_path / "in" / "day.parquet" / "1.parquet", user=[1], x=[3])
    (path,) = find_source(tmp_path / "in", "user", "x", fold).files
    assert str(path).endswith("day.parquet/1.parquet")


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


KEYS = [
    (pa.uint64(), 2**64 - 1, 1),
    (pa.int8(), -1, 7),
    (pa.float64(), 0.5, -0.5),
    (pa.bool_(), True, False),
    (pa.large_string(), "ab", "b"),
    (pa.binary(2), b"ab", b"ba"),
    (pa.date32(), date(2026, 1, 2), date(2025, 1, 2)),
    (pa.timestamp("ns"), 1_790_000_000_123_456_789, 5),
    (pa.time64("us"), time(1, 2, 3), time(2, 3, 4)),
    (pa.decimal128(9, 2), Decimal("1.50"), Decimal("-1.50")),
]


@pytest.mark.parametrize(("kind", "one", "other"), KEYS, ids=[str(kind) for kind, *_ in KEYS])
def test_keys_of_any_type_come_back_sorted_as_they_were_and_so_do_nulls(
    fold, tmp_path, kind, one, other
):
    keys = pa.array([one, None, other, one], kind)
    path = write(tmp_path / "in.parquet", user=keys, x=[1, 2, 3, 4])
    fold_table(fold, path, tmp_path / "out.parquet", key="user", on="x")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found["user"].type == kind
    counts = {
        key.as_py(): n for key, n in zip(found["user"], found["num_rows"].to_pylist(), strict=True)
    }
    assert counts == {keys[0].as_py(): 2, keys[2].as_py(): 1, None: 0}
    values = found["user"].combine_chunks()
    assert pc.array_sort_indices(values).to_pylist() == [0, 1, 2]
