"""The forest of a law holds its sides at the chosen nodes, read off nested tuples."""

import pytest
import torch
from aggr.cases import seeded
from hypothesis import given
from hypothesis import strategies as st
from trees import BRACKETINGS, SIZES, some, trees_of

from treefold.aggr.law_forest import associativity_forest, commutativity_forest
from treefold.fold import plan_tree
from treefold.fold.reference import associativity_triples

bracketings = pytest.mark.parametrize("bracketing", BRACKETINGS)


def states_of(plan):
    """Every state of a plan as a nested tuple: leaves, then nodes."""
    made = plan.leaves.tolist()
    for left, right in plan.children.tolist():
        made.append((made[left], made[right]))
    return made


def sides_of(forest, states):
    """Pairs of left-hand and right-hand sides, as nested tuples over the rows of the tree."""

    def grown(tree):
        return tuple(map(grown, tree)) if isinstance(tree, tuple) else rows[tree]

    rows = [states[place] for place in forest.places.tolist()]
    sides = [grown(tree) for tree in trees_of(forest.plan)]
    half = len(sides) // 2
    return list(zip(sides[:half], sides[half:], strict=True))


def either_way(pairs):
    """Sides may be swapped, and come in any order."""
    return sorted(sorted(map(repr, pair)) for pair in pairs)


def nodes_to_ask(plan, share, generator):
    """Some of the nodes with a node below."""
    candidates = (plan.children >= plan.num_rows).any(1).nonzero().squeeze(1)
    order = torch.randperm(len(candidates), generator=generator)
    return candidates[order[: round(share * len(order))]]


def triples_at(tree):
    """The triples of a tree's root alone."""
    below = [triple for part in tree for triple in associativity_triples(part)]
    return associativity_triples(tree)[: len(associativity_triples(tree)) - len(below)]


@bracketings
@some
@given(sizes=SIZES, share=st.sampled_from([0, 0.1, 0.5, 1]), seed=st.integers(0, 100))
def test_both_sides_of_every_triple_at_the_chosen_nodes_are_there(bracketing, sizes, share, seed):
    generator = seeded(seed)
    plan = plan_tree(sizes, bracketing, generator)
    nodes, states = nodes_to_ask(plan, share, generator), states_of(plan)
    triples = [
        triple for node in nodes.tolist() for triple in triples_at(states[plan.num_rows + node])
    ]
    expected = [(((a, b), c), (a, (b, c))) for a, b, c in triples]
    found = sides_of(associativity_forest(plan, nodes), states)
    assert either_way(found) == either_way(expected)


@bracketings
@some
@given(sizes=SIZES)
def test_every_node_stands_beside_its_swapped_self(bracketing, sizes):
    plan = plan_tree(sizes, bracketing, seeded())
    states, nodes = states_of(plan), torch.arange(plan.num_applications).flip(0)
    found = sides_of(commutativity_forest(plan, nodes), states)
    assert found == [(tree, tree[::-1]) for tree in reversed(states[plan.num_rows :])]


@bracketings
@some
@given(sizes=SIZES)
def test_nothing_is_met_twice_in_one_level(bracketing, sizes):
    plan = plan_tree(sizes, bracketing, seeded())
    forest = associativity_forest(plan, nodes_to_ask(plan, 1, seeded())).plan
    for met in forest.children.split([level.num_pairs for level in forest.levels]):
        assert met.unique().numel() == met.numel()
