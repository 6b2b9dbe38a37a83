"""Laws of one's own, as losses on the states of trees."""

import math

import pytest
import torch
from aggr.cases import CHANNELS, INDEX, NUM_GROUPS, Skewed, X, normal, seeded

import treefold
from treefold import LCMAggregation, record_penalties
from treefold.aggr.element_laws import ElementLaw
from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import COMMUTATIVITY, Law, Max
from treefold.fold import plan_tree, tree_fold

IDEMPOTENCE = Law("idempotence", 1, lambda op, a: (op(a, a), a))
MEDIALITY = Law(
    "mediality", 4, lambda op, a, b, c, d: (op(op(a, b), op(c, d)), op(op(a, c), op(b, d)))
)


def skewed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Skewed().double()


def tree_of(op, sizes):
    x, plan = normal(sum(sizes), CHANNELS), plan_tree(sizes)
    return TreeStates.of(plan, x[plan.leaves], tree_fold(op, x, plan).nodes)


def states_of(tree):
    return torch.cat([tree.leaves.gathered(), tree.nodes])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_a_law_on_one_element_is_asked_of_every_state(reduction):
    op = skewed()
    tree = tree_of(op, [5, 1, 0, 8])
    loss = ElementLaw(IDEMPOTENCE)(op, tree, Sampling(None, reduction))
    torch.testing.assert_close(loss, IDEMPOTENCE.loss(op, states_of(tree), reduction=reduction))


def test_elements_of_a_law_on_several_are_states_of_the_trees_drawn_independently():
    asked = []

    def sides(op, *elements):
        asked.append(elements)
        return op(*elements), op(*elements)

    op = skewed()
    tree = tree_of(op, [5, 1, 0, 8])
    ElementLaw(Law("watched", 2, sides))(op, tree, Sampling(), seeded())
    (firsts, seconds), states = asked[0], states_of(tree)
    assert torch.equal(firsts, states)
    order = [int((states == row).all(1).nonzero()) for row in seconds]
    assert sorted(order) == list(range(len(states))) != order


def test_a_sampled_loss_is_that_of_all_pairs_on_average():
    op, generator = skewed(), seeded()
    tree = tree_of(op, [4, 3])
    states = states_of(tree)
    every_pair = torch.cartesian_prod(torch.arange(len(states)), torch.arange(len(states)))
    with torch.no_grad():
        whole = COMMUTATIVITY.loss(op, *(states[places] for places in every_pair.T))
        draws = torch.stack(
            [ElementLaw(COMMUTATIVITY)(op, tree, Sampling(3), generator) for _ in range(400)]
        )
    standard_error = draws.std() / math.sqrt(len(draws))
    assert 0 < standard_error < 0.2 * whole
    assert (draws.mean() - whole).abs() < 4 * standard_error


def test_it_is_recorded_under_its_name_with_its_weight():
    aggregator = LCMAggregation(CHANNELS, skewed(), laws={IDEMPOTENCE: 0.5}, shuffle=False)
    with record_penalties() as penalties:
        aggregator(X, INDEX)
    (penalty,) = penalties.recorded
    op, plan = aggregator.operator, plan_tree(torch.bincount(INDEX, minlength=NUM_GROUPS))
    nodes = tree_fold(op, X, plan).nodes
    assert (penalty.law, penalty.weight) == ("idempotence", 0.5)
    torch.testing.assert_close(penalty.loss, IDEMPOTENCE.loss(op, torch.cat([X, nodes])))
    torch.testing.assert_close(penalties.total(), 0.5 * penalty.loss)


def test_it_stands_beside_the_weights_of_our_laws():
    aggregator = LCMAggregation(
        CHANNELS, skewed(), associativity=1.0, laws={IDEMPOTENCE: 2.0, MEDIALITY: 0.0}
    )
    assert aggregator.laws.active == {"associativity": 1.0, "idempotence": 2.0}
    assert "idempotence=2" in repr(aggregator)
    with record_penalties() as penalties:
        aggregator(X, INDEX)
    assert set(penalties.by_law()) == {"associativity", "idempotence"}


def test_it_pulls_an_operator_towards_the_law():
    torch.manual_seed(0)
    aggregator = treefold.aggregator("binary-gru", 8, laws={IDEMPOTENCE: 1.0}, law_nodes=32)
    optimizer = torch.optim.Adam(aggregator.parameters(), lr=1e-2)
    x, index = torch.randn(60, 8), torch.arange(60) % 7
    found = []
    for _ in range(40):
        with record_penalties() as penalties:
            aggregator(x, index)
        optimizer.zero_grad()
        penalties.total().backward()
        optimizer.step()
        found.append(penalties.by_law()["idempotence"])
    assert sum(found[-5:]) < sum(found[:5]) / 2


@pytest.mark.parametrize("law", [IDEMPOTENCE, MEDIALITY], ids=lambda law: law.name)
@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 1]])
def test_trees_without_nodes_give_gradients_to_every_parameter(law, sizes):
    op = skewed()
    loss = ElementLaw(law)(op, tree_of(op, sizes), Sampling(3), seeded())
    loss.backward()
    assert loss.isfinite()
    assert sum(sizes) or loss == 0
    assert all(parameter.grad is not None for parameter in op.linear.parameters())


def test_a_law_that_holds_costs_nothing():
    aggregator = LCMAggregation(CHANNELS, Max(), laws={IDEMPOTENCE: 1.0, MEDIALITY: 1.0})
    with record_penalties() as penalties:
        aggregator(X, INDEX)
    assert penalties.total() == 0


def test_what_is_no_law_and_names_that_are_taken_are_refused():
    with pytest.raises(ValueError, match=r"laws has the key 'idempotence'; expected a Law"):
        LCMAggregation(CHANNELS, laws={"idempotence": 1.0})
    with pytest.raises(ValueError, match=r"commutativity, which .*; use commutativity=0\.5"):
        LCMAggregation(CHANNELS, laws={COMMUTATIVITY: 0.5})
    again = Law("idempotence", 1, lambda op, a: (a, a))
    with pytest.raises(ValueError, match=r"laws has idempotence twice"):
        LCMAggregation(CHANNELS, laws={IDEMPOTENCE: 1.0, again: 1.0})
    with pytest.raises(ValueError, match=r"weight of idempotence is -1"):
        LCMAggregation(CHANNELS, laws={IDEMPOTENCE: -1})
