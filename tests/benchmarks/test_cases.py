"""Cases time an aggregator as a layer calls it, forward and backward, and not the bare fold."""

import pytest
import torch

from benchmarks import cases, engine, floors
from benchmarks.timing import Ratio, timed
from treefold.aggr import RaggedAggregation

draw = cases.Sets.draw


@pytest.fixture
def calls(monkeypatch):
    """Cases at a small size, each timed once; what the aggregators were called for."""
    seen, call = [], RaggedAggregation.__call__

    def look(module, x, *arguments, **options):
        out = call(module, x, *arguments, **options)
        seen.append("forward")
        out.register_hook(lambda grad: seen.append("backward"))
        return out

    monkeypatch.setattr(RaggedAggregation, "__call__", look)
    for module in (cases, engine):
        monkeypatch.setattr(module, "WIDTH", 8)
        monkeypatch.setattr(
            module,
            "ratio",
            lambda above, below, warm_up=2: Ratio.of([(timed(above), timed(below))]),
        )
    monkeypatch.setattr(
        cases.Sets, "draw", lambda sizes, width=8: draw(sizes.clamp(max=40)[:20], width)
    )
    monkeypatch.setattr(cases.Sets, "small", lambda num_sets: draw(torch.arange(1, 17), 8))
    return seen


CASES = [
    case
    for case in (*engine.CASES, *cases.CASES)
    if case not in (cases.planning, cases.small_fold_beside_others, engine.first_call)
]


@pytest.mark.parametrize("case", CASES)
def test_every_case_calls_an_aggregator_there_and_back(case, calls):
    results = list(case())
    assert results
    assert all(result.ratio.median > 0 for result in results)
    assert calls[:2] == ["forward", "backward"]
    assert calls.count("forward") == calls.count("backward") >= len(results)


def test_planning_is_timed_beside_a_forward(calls):
    assert [result.against for result in cases.planning()] == ["the forward of one layer"] * 2


def test_a_small_fold_is_timed_alone_and_beside_processes_that_end_with_it(calls, monkeypatch):
    started, start = [], cases.subprocess.Popen
    monkeypatch.setattr(
        cases.subprocess, "Popen", lambda command: started.append(start(command)) or started[-1]
    )
    (result,) = cases.small_fold_beside_others(num_times=3)
    assert result.ratio.median > 0
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert calls == ["forward", "backward"] * 7


def test_floors_multiply_as_often_as_the_step_must(monkeypatch):
    counted, bare = [], torch.mm
    monkeypatch.setattr(
        torch,
        "mm",
        lambda a, b, out: (
            counted.append(a.shape[0] * a.shape[1] * b.shape[1]) or bare(a, b, out=out)
        ),
    )
    for floor, expected in (
        (floors.binary_gru(10, 4), 3 * 12 * 4 * 4 * 10),
        (floors.gated_selection(10, 4), 3 * 7 * 4 * 4 * 10),
        (floors.coupling_flow(10, 4), 3 * 4 * 3 * 4 * 4 * 10),
    ):
        counted.clear()
        floor()
        assert sum(counted) == expected


def test_the_pairs_of_every_fold_are_counted():
    aggregator = engine.treefold.aggregator("gated-selection", 4)
    with floors.counted_pairs() as pairs:
        aggregator(torch.randn(7, 4), torch.tensor([0, 0, 0, 1, 1, 2, 2]))
    assert pairs == [4]


def test_first_calls_are_timed_in_new_processes():
    (result,) = engine.first_call(rounds=1)
    assert result.ratio.median > 0
    assert all(seconds > 0 for seconds in result.ratio.seconds)
