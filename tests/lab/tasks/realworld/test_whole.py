"""Whole data sets, where they are at hand: counts and averages as published."""

import pytest
import torch

from treefold.lab.tasks import ZINC, MolHIV


def test_molhiv_has_the_published_graphs_and_active_molecules(whole):
    splits = {name: MolHIV().split(name, whole) for name in ("train", "val", "test")}
    assert [len(store) for store in splits.values()] == [32_901, 4_113, 4_113]
    assert [int(store.y.sum()) for store in splits.values()] == [1_232, 81, 130]
    assert sum(int(store.sizes.sum()) for store in splits.values()) == 1_049_163
    assert sum(int(store.num_edges.sum()) for store in splits.values()) == 2_259_376


def test_zinc_has_the_published_sizes(whole):
    splits = {name: ZINC().split(name, whole) for name in ("train", "val", "test")}
    assert [len(store) for store in splits.values()] == [10_000, 1_000, 1_000]
    for store in splits.values():
        assert float(store.sizes.double().mean()) == pytest.approx(23.15, abs=0.1)
        assert float(store.num_edges.double().mean()) == pytest.approx(49.8, abs=0.15)
    everything = splits["val"].take(torch.arange(1_000))
    assert everything.in_degrees.sum() == splits["val"].num_edges.sum()
    back = everything.edge_index.flip(0)
    assert set(map(tuple, back.t().tolist())) == set(map(tuple, everything.edge_index.t().tolist()))
