"""Cases time an aggregator as a layer calls it, forward and backward, and not the bare fold."""

import pytest
import torch

from benchmarks import cases
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
    monkeypatch.setattr(cases, "WIDTH", 8)
    monkeypatch.setattr(
        cases, "ratio", lambda above, below, warm_up=2: Ratio.of([(timed(above), timed(below))])
    )
    monkeypatch.setattr(
        cases.Sets, "draw", lambda sizes, width=8: draw(sizes.clamp(max=40)[:20], width)
    )
    monkeypatch.setattr(cases.Sets, "small", lambda num_sets: draw(torch.arange(1, 17), 8))
    return seen


CASES = [
    case for case in cases.CASES if case not in (cases.planning, cases.small_fold_beside_others)
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
