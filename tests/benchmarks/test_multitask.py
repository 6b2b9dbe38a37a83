"""The multi-task benchmark compares one network with itself: only the aggregation differs."""

import pytest
import torch

from benchmarks.beside_pyg import Theirs
from benchmarks.multitask import CASES, PAPER, Case, Training, epoch_size, one_of_each_size, span
from treefold.lab.experiments.multitask import find
from treefold.lab.tasks import GraphData

SMALL = find("multi-task/binary-gru", "smoke")[0]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def rings(num_graphs, size):
    """Every node has two neighbours, so PyG has nothing to pad and there is one tree."""
    places = torch.arange(size)
    ring = torch.stack([places, (places + 1) % size])
    edges = torch.cat([ring, ring.flip(0)], 1)
    shifted = [edges + size * number for number in range(num_graphs)]
    return GraphData(
        x=torch.randn(num_graphs * size, 2),
        edge_index=torch.cat(shifted, 1),
        node_y=torch.randn(num_graphs * size, 3),
        graph_y=torch.randn(num_graphs, 3),
        sizes=torch.full((num_graphs,), size),
        num_edges=torch.full((num_graphs,), 2 * size),
        families=torch.zeros(num_graphs, dtype=torch.int64),
    )


def gradients(model):
    """Gradients of all weights, but of an identity, which PyG's aggregator does not have."""
    return [weight.grad for name, weight in model.named_parameters() if "identity" not in name]


def test_both_networks_learn_the_same_where_pyg_has_nothing_to_pad():
    batch = rings(4, 8)
    ours, theirs = (Training(which, SMALL) for which in ("treefold", "pyg"))
    assert all(isinstance(made, Theirs) for made in theirs.model.next.aggregators)
    before, others = (training.step(batch) for training in (ours, theirs))
    assert before == pytest.approx(others, rel=1e-5)
    found, expected = (gradients(training.model) for training in (ours, theirs))
    # Not what Adam makes of them: where a gradient is zero, it takes rounding for a direction.
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-3)
    assert all(training.step(batch) < before for training in (ours, theirs))


def test_the_network_is_that_of_the_papers_wide_row():
    assert (PAPER.model.channels, PAPER.model.towers) == (128, 1)
    assert {name: case.batch_size for name, case in CASES.items()} == {"quick": 64, "paper": 512}


def test_an_epoch_has_a_batch_of_every_size_the_largest_first():
    data = Training("treefold", SMALL).runner.train()
    batches = one_of_each_size(data, Case(batch_size=4))
    assert [batch.sizes.unique().tolist() for batch in batches] == [[n] for n in range(24, 14, -1)]
    assert {len(batch) for batch in batches} == {4}
    assert epoch_size(data, batches) == len(data) == 80
    assert span(batches) == "15 to 24"


def test_a_case_may_have_graphs_of_one_size():
    data = Training("treefold", SMALL).runner.train()
    batches = one_of_each_size(data, Case(batch_size=512, sizes=(15,)))
    assert [batch.sizes.tolist() for batch in batches] == [[15] * 8]
    assert epoch_size(data, batches) == 8
    assert span(batches) == "15"
