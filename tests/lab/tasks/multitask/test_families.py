"""Families: the graphs they name, in the proportions of the benchmark."""

import random
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.lab.tasks.multitask.families import (
    FAMILIES,
    Seeded,
    draw_family,
    power_law_tree,
)

BY_NAME = {family.name: family for family in FAMILIES}
sizes, seeds = st.integers(2, 40), st.integers(0, 2**20)


def build(name, n, seed):
    return BY_NAME[name].build(n, Seeded.from_seed(seed))


def without_leaves(graph):
    return graph.subgraph(node for node in graph if graph.degree(node) > 1)


def is_path(graph):
    return len(graph) == 0 or (nx.is_tree(graph) and max(dict(graph.degree).values()) <= 2)


@pytest.mark.parametrize("name", BY_NAME)
@settings(max_examples=10, deadline=None)
@given(n=sizes, seed=seeds)
def test_every_family_has_as_many_nodes_as_asked_and_no_loops(name, n, seed):
    graph = build(name, n, seed)
    assert len(graph) == n
    assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("name", ["tree", "line", "star", "caterpillar", "lobster"])
@settings(max_examples=10, deadline=None)
@given(n=sizes, seed=seeds)
def test_five_families_are_trees(name, n, seed):
    assert nx.is_tree(build(name, n, seed))


@settings(max_examples=30, deadline=None)
@given(n=sizes, seed=seeds)
def test_a_caterpillar_without_leaves_is_a_path_and_a_lobster_without_leaves_a_caterpillar(n, seed):
    assert is_path(without_leaves(build("caterpillar", n, seed)))
    assert is_path(without_leaves(without_leaves(build("lobster", n, seed))))


@settings(max_examples=30, deadline=None)
@given(n=sizes)
def test_the_fixed_families_are_what_their_names_say(n):
    rows = max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n)
    grid, caves, ladder = (build(name, n, 0) for name in ("grid", "caveman", "ladder"))
    assert nx.is_isomorphic(grid, nx.grid_2d_graph(rows, n // rows))
    parts = [caves.subgraph(part) for part in nx.connected_components(caves)]
    assert [len(part) for part in parts] == [n // rows] * rows
    assert all(nx.density(part) == 1 for part in parts if len(part) > 1)
    assert ladder.number_of_edges() == 3 * (n // 2) - 2 + n % 2
    assert max(dict(build("star", n, 0).degree).values()) == n - 1
    assert nx.diameter(build("line", n, 0)) == n - 1


@settings(max_examples=30, deadline=None)
@given(n=sizes, seed=seeds)
def test_barabasi_albert_graphs_have_m_edges_for_each_node_after_the_first_m(n, seed):
    m = int(random.Random(seed).random() * (n - 1)) + 1
    assert build("barabasi-albert", n, seed).number_of_edges() == m * (n - m)


@pytest.mark.parametrize("n", [2, 3, 15, 24, 99])
def test_power_law_trees_are_networkx_s_to_the_order_of_their_edges(n):
    for seed in range(8):
        ours, theirs = power_law_tree(n, seed), nx.random_powerlaw_tree(n, 3, seed, tries=10_000)
        assert (list(ours), list(ours.edges)) == (list(theirs), list(theirs.edges))


def test_families_are_drawn_by_their_shares():
    assert sum(family.share for family in FAMILIES) == pytest.approx(1)
    stream = np.random.RandomState(0)
    drawn = Counter(draw_family(stream) for _ in range(10_000))
    for number, family in enumerate(FAMILIES):
        assert drawn[number] / 10_000 == pytest.approx(family.share, abs=0.015)


@pytest.mark.parametrize("name", BY_NAME)
def test_global_random_numbers_are_left_alone(name):
    random.seed(7)
    np.random.seed(7)
    build(name, 15, 3)
    after = random.random(), np.random.random()
    random.seed(7)
    np.random.seed(7)
    assert after == (random.random(), np.random.random())
