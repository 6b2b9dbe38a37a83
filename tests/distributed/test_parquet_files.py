"""Files are never overwritten by mistake, and no result is written in part."""

import pytest

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

import pyarrow.parquet as pq
from distributed.ray_warnings import ignored
from distributed.trained import fresh_fold

from treefold.distributed import fold_table
from treefold.distributed.parquet import write_result

pytestmark = ignored


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"user": [1]}, "no column 'x'; it has user"),
        ({"user": [1], "x": ["a"]}, "holds string; expected integers from 0 to 255, or lists of 8"),
        ({"user": [1], "x": [0.5]}, "holds double; expected"),
    ],
)
def test_tables_that_cannot_be_folded_are_refused_before_any_work(
    fold, tmp_path, monkeypatch, table, message
):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was started"))
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=message):
        fold_table(fold, tmp_path / "in.parquet", tmp_path / "out.parquet", key="user", on="x")


@pytest.mark.parametrize("name", ["in.parquet", "out.bad.parquet"])
def test_a_source_is_never_overwritten(fold, tmp_path, name):
    pq.write_table(pa.table({"user": [1, 1], "x": [3, 4]}), tmp_path / name)
    before = (tmp_path / name).read_bytes()
    out = tmp_path / ("in.parquet" if name == "in.parquet" else "out.parquet")
    with pytest.raises(ValueError, match=f"{name} would be written, and it is one of the files"):
        fold_table(fold, tmp_path / name, out, key="user", on="x")
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_result_that_lacks_rows_is_not_written(tmp_path):
    out = tmp_path / "out.parquet"
    batch = pa.table({"user": [1], "state": [[0.5]], "num_rows": [2], "num_bad": [1], "bad": [""]})
    with pytest.raises(RuntimeError, match="3 rows were folded or found bad, but the table has 4"):
        write_result(iter([batch]), "user", out, 4)
    assert not list(tmp_path.iterdir())
    assert write_result(iter([batch]), "user", out, 3).num_rows == 2
    assert out.exists()


def test_a_write_that_fails_leaves_the_old_result_and_nothing_else(tmp_path, monkeypatch):
    out = tmp_path / "out.parquet"
    out.write_bytes(b"old")
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _full_disk)
    batch = pa.table({"user": [1], "state": [[0.5]], "num_rows": [1], "num_bad": [0], "bad": [""]})
    with pytest.raises(OSError, match="disk is full"):
        write_result(iter([batch]), "user", out, 1)
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


def _full_disk(*_):
    raise OSError(28, "No space left on device")
