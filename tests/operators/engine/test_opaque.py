"""A whole fold as one operation: what torch asks of operations, and the answers of eager."""

import jaxtyping
import pytest
import torch

from treefold import BinaryGRU, Groups, plan_tree
from treefold.fold import tree_fold
from treefold.operators import GatedSelection
from treefold.operators.engine.opaque import opaque_fold
from treefold.operators.engine.operations import why_not

CHANNELS = 3

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=f"no compiled folds: {why_not()}"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _unchecked():
    """Shape checks are no part of what is to be traced."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def arguments(op, num_rows, num_groups, shuffled):
    x = torch.randn(num_rows, 2, op.channels, dtype=torch.float64, requires_grad=True)
    index = torch.randint(num_groups, (num_rows,))
    order = torch.randperm(num_rows) if shuffled else None
    given = {BinaryGRU: ("binary_gru", []), GatedSelection: ("gated_selection", [0.1])}
    parameters = list(op._parameters_of_fold())
    how = (*given[type(op)], False, True)
    return x, op.identity, parameters, index, order, num_groups, 64, *how


OPERATORS = [BinaryGRU(CHANNELS), GatedSelection(CHANNELS, stretch=0.1)]


@pytest.mark.parametrize("op", [op.double() for op in OPERATORS], ids=lambda op: type(op).__name__)
@pytest.mark.parametrize("shuffled", [False, True])
def test_it_is_an_operation_as_torch_wants_it(op, shuffled):
    # Behind the last node is memory for more, whose values are anybody's: there is no comparing.
    torch.library.opcheck(
        opaque_fold,
        arguments(op, 9, 4, shuffled),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@pytest.mark.parametrize("op", [op.double() for op in OPERATORS], ids=lambda op: type(op).__name__)
@pytest.mark.parametrize(("num_rows", "num_groups"), [(1, 1), (1, 3), (40, 1), (50, 70)])
def test_groups_states_and_gradients_are_those_of_the_planned_fold(op, num_rows, num_groups):
    given = arguments(op, num_rows, num_groups, shuffled=True)
    x, *_, index, order = given[:5]
    groups, states, _, leaves, levels, children, _ = opaque_fold(*given)
    plan = plan_tree((own := Groups.from_index(index, num_groups)).sizes)
    expected = tree_fold(op, x[order[own.order]], plan)
    count = plan.num_applications
    assert int(levels[:, 0].sum()) == count
    assert torch.equal(leaves, order[own.order[plan.leaves]])
    assert torch.equal(children[:count], plan.children)
    torch.testing.assert_close(groups, expected.groups)
    torch.testing.assert_close(states[num_rows:][:count], expected.nodes)
    assert (states[num_rows + count :] == 0).all()
    wanted = [x, *op.parameters()]
    losses = (
        groups.sin().sum() + states[: num_rows + count].cos().sum(),
        expected.groups.sin().sum() + expected.nodes.cos().sum() + x.cos().sum(),
    )
    torch.testing.assert_close(*(torch.autograd.grad(loss, wanted) for loss in losses))


def test_a_group_that_is_too_large_is_refused():
    given = list(arguments(OPERATORS[0], 9, 1, shuffled=False))
    given[6] = 8
    with pytest.raises(ValueError, match="has 9 rows; this fold was recorded for at most 8"):
        opaque_fold(*given)
