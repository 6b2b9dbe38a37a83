"""The prices of a table are those of the work that `treefold fold` does, done completely."""

import subprocess
import sys

import pytest
import torch

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

from benchmarks import tables
from benchmarks.tables import (
    Costs,
    merge,
    page,
    processor_seconds,
    rows_per_second,
    shuffle,
    untrained,
)
from treefold.distributed import on_ray

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_every_row_is_folded_while_the_clock_runs(monkeypatch):
    def folded(work, clock):
        return sum(sum(part["num_rows"].to_pylist()) for part in work())

    monkeypatch.setattr(tables, "timed", folded)
    assert rows_per_second(untrained(8), num_rows=70_000, num_keys=3) == 1.0


@torch.no_grad()
def test_ray_merges_and_moves_one_state_of_every_key_and_block():
    fold = untrained(8)
    one = fold.table[:1]
    with on_ray(progress=False):
        merged = merge(fold, num_blocks=5, num_keys=3)
        moved = shuffle(fold, num_blocks=4, num_keys=3)
    pair = fold.operator(one, one)
    assert sorted(merged) == [0, 1, 2]
    four_and_one = fold.operator(fold.operator(pair, pair), one)
    for state in merged.values():
        torch.testing.assert_close(torch.tensor([state]), four_and_one)
    # What states that met in one task would give: the balanced tree, two and three.
    two_and_three = fold.operator(pair, fold.operator(pair, one))
    assert not torch.allclose(two_and_three, four_and_one, atol=1e-3)
    assert moved == 12


def test_a_price_is_what_more_blocks_take_longer():
    now = [0.0]

    def work(blocks):
        now[0] += 5 + 2 * blocks

    assert tables.slope(work, 3, 10, lambda: now[0]) == 2.0


def test_a_clock_that_other_work_has_spoilt_is_refused():
    now = [0.0]

    def work(blocks):
        now[0] += 100 - blocks

    with pytest.raises(RuntimeError, match=r"10 blocks took 90.00 s and 3 took 97.00 s"):
        tables.slope(work, 3, 10, lambda: now[0])


def test_the_time_of_processes_that_have_ended_counts():
    before = processor_seconds()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert processor_seconds() - before > 0.25


def test_the_page_has_prices_of_two_digits_and_says_what_made_it():
    text = page(Costs(131_234.0, 1.234e-3, 24.9e6))
    assert "| 130,000 rows a second |" in text
    assert "| 1.2 ms |" in text
    assert "| 25 MB a second and core |" in text
    assert "Made by `python -m benchmarks.tables`" in text
