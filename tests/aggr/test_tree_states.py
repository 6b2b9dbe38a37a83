"""States of a fold are found by their places, from a table or from rows."""

import pytest
import torch
from aggr.cases import CHANNELS, normal, seeded

from treefold.aggr import tree_states
from treefold.aggr.tree_states import TreeStates
from treefold.fold import TableRows, plan_tree

SIZES = [5, 0, 1, 8, 3]
PLAN = plan_tree(SIZES, "random", seeded())

often = pytest.mark.parametrize("often", [0, 10**6], ids=["as a table", "as rows"])


def states(from_table):
    table, nodes = normal(7, CHANNELS), normal(PLAN.num_applications, CHANNELS, seed=1)
    table.requires_grad_(), nodes.requires_grad_()
    leaves = TableRows(table, torch.arange(PLAN.num_rows) % 7)
    given = leaves if from_table else leaves.gathered()
    everything = torch.cat([leaves.gathered(), nodes])
    return TreeStates.of(PLAN, given, nodes), everything, (table, nodes)


@often
@pytest.mark.parametrize("from_table", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 200])
def test_a_state_is_what_lies_at_its_place_and_so_is_its_gradient(
    often, from_table, count, monkeypatch
):
    monkeypatch.setattr(tree_states, "FEW_TIMES", often)
    tree, everything, inputs = states(from_table)
    assert len(tree) == len(everything)
    places = torch.randint(0, len(tree), (count,), generator=seeded())
    found, expected = tree.at(places).gathered(), everything[places]
    assert torch.equal(found, expected)
    weights = normal(count, CHANNELS, seed=2)
    grads = [torch.autograd.grad((x * weights).sum(), inputs) for x in (found, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_each_state_is_in_the_table_once_if_all_are_asked_for_often():
    tree, _, (table, nodes) = states(from_table=True)
    places = torch.arange(len(tree)).repeat(tree_states.FEW_TIMES)
    assert len(tree.at(places).table) == len(table) + len(nodes)
    assert len(tree.at(places[:5]).table) == 5
