"""Ratios compare both sides round by round, whatever the machine does in between."""

import pytest

from benchmarks import beside_pyg, timing
from benchmarks.memory import peak_of
from benchmarks.timing import Ratio, ratio_over


def test_a_ratio_is_the_median_over_rounds_and_not_that_of_the_medians():
    found = Ratio.of([(6.0, 2.0), (40.0, 10.0), (5.0, 1.0)])
    assert (found.low, found.median, found.high) == (3.0, 4.0, 5.0)
    assert found.seconds == (6.0, 2.0)


def test_one_round_has_no_spread():
    found = Ratio.of([(6.0, 2.0)])
    assert (found.low, found.median, found.high) == (3.0, 3.0, 3.0)


def test_items_are_taken_in_turn_and_their_times_added(monkeypatch):
    monkeypatch.setattr(timing, "timed", lambda action, clock: action())
    calls = []

    def takes(side, seconds):
        return lambda item: calls.append((side, item)) or seconds * item

    found = ratio_over([1, 2], takes("above", 9.0), takes("below", 3.0), rounds=2)
    assert calls == [("above", 1), ("below", 1), ("above", 2), ("below", 2)] * 2
    assert found.median == 3.0
    assert found.seconds == (27.0, 9.0)


def test_the_peak_is_what_work_holds_at_once_and_not_what_was_held_before():
    bytearray(b"1") * (256 << 20)  # an earlier peak
    size = 64 << 20
    assert 0.9 * size < peak_of(lambda: bytearray(b"1") * size) < 2 * size  # pages are counted late


@pytest.mark.parametrize(
    ("faster", "theirs", "verdict"), [(3.5, 200, "yes"), (2.5, 200, "**no**"), (3.5, 50, "**no**")]
)
def test_a_row_is_reached_if_theirs_takes_longer_and_more_memory(
    monkeypatch, faster, theirs, verdict
):
    peaks = {"pyg": theirs << 20, "treefold": 100 << 20}
    monkeypatch.setattr(beside_pyg, "peak_in_a_process", lambda _, which, __: peaks[which])
    times = Ratio.of([(faster, 1.0)])
    row = beside_pyg.row("m", "case", "an epoch", times, (7.0, 2.0), "so", 3.0, less_memory=True)
    assert row[4] == verdict
    assert row[2].endswith(f"{theirs / 100:.1f}x the peak memory")
    assert row[5] == f"7 s and {theirs} MiB against 2 s and 100 MiB; so, one thread"
