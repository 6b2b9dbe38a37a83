"""The walk from an aggregator's call to the kernel is short enough to be counted on one's hands."""

import pytest

from benchmarks.call_depth import calls_of_aggregator
from treefold.operators.engine.operations import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["binary-gru", "gated-selection"])
def test_from_the_aggregator_to_the_kernel_it_is_15_calls_at_most(name, training):
    ours, _ = calls_of_aggregator(name, training)
    assert ours["aggr/base.py"] == 1
    assert ours["operators/engine/folding.py"] == 2
    assert sum(ours.values()) <= 15
