"""The rows of the page of tables, in miniature: all of the work is done, and missed goals show."""

import pyarrow.parquet as pq
import pytest
import torch

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from benchmarks import tables

ROWS = (
    tables.in_memory_row,
    tables.merging_row,
)


@pytest.fixture
def small(monkeypatch):
    sizes = {"ROWS": 3_000, "KEYS": 50, "WIDTH": 8, "NUM_VALUES": 16, "AT_ONCE": 64, "ROUNDS": 1}
    sizes["_SIZES"] = ((64, 8), (8, 24), (8, 16))
    for name, value in sizes.items():
        monkeypatch.setattr(tables, name, value)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_says_what_was_measured_and_what_was_to_be_reached(row, tmp_path):
    what, against, ratio, reach, reached, _ = row(tmp_path)
    assert "50 keys" in what
    assert against == "its counted multiplications"
    assert reach == "at most 2x"
    assert reached == ("yes" if float(ratio.split()[0].replace(",", "")) <= 2 else "**no**")


@pytest.mark.usefixtures("small")
def test_the_embedded_fold_is_of_every_row(tmp_path):
    source = tables.written(tmp_path, 3_000, 50)
    tables.embedded(source)
    found = pq.read_table(source.with_suffix(".out"))
    keys, values = tables.drawn(3_000, 50)
    expected = tables.model().fold(values, tables.Groups.from_index(keys, 50))
    assert sum(found["num_rows"].to_pylist()) == 3_000
    torch.testing.assert_close(torch.tensor(found["state"].to_pylist()), expected)


@pytest.mark.usefixtures("small")
def test_the_floor_does_the_multiplications_that_are_counted(monkeypatch):
    done = []
    monkeypatch.setattr(torch, "mm", lambda a, b, out: done.append(a.shape[0] * b.numel()))
    tables.floor(640, 1280)()
    assert sum(done) == 640 * 3 * 8 * 8 + 1280 * 2 * 8 * 8


def test_the_page_names_the_command_and_its_rows():
    row = ["a fold", "its parts", "1.00 (1.00 to 1.00)", "at most 2x", "yes", ""]
    text = tables.page([row])
    assert "Made by `python -m benchmarks.tables`" in text
    assert "| a fold | its parts | 1.00 (1.00 to 1.00) | at most 2x | yes |  |" in text
