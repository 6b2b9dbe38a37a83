"""Set2Set with a number of steps of its own for each graph, and aggregators as readouts."""

import pytest
import torch
from torch_geometric.nn.aggr import Set2Set

import treefold
from treefold.lab.networks import AggregatorReadout, GraphLayout, SizedSet2Set

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)


def layout_of(sizes):
    batch = torch.repeat_interleave(torch.tensor(sizes))
    return GraphLayout.of(sum(sizes), NO_EDGES, batch, len(sizes))


def pyg_with_weights_of(readout, steps):
    other = Set2Set(readout.channels, steps).double()
    other.lstm.load_state_dict({f"{k}_l0": v for k, v in readout.cell.state_dict().items()})
    return other


def test_every_graph_gets_pyg_s_set2set_with_as_many_steps_as_it_has_nodes():
    readout = SizedSet2Set(3).double()
    sizes = [2, 5, 1, 5, 3]
    layout = layout_of(sizes)
    x = torch.randn(sum(sizes), 3, dtype=torch.float64)
    found = readout(x[layout.nodes], layout)
    for place, graph in enumerate(layout.graphs.tolist()):
        rows = x[sum(sizes[:graph]) : sum(sizes[: graph + 1])]
        index = torch.zeros(len(rows), dtype=torch.long)
        alone = pyg_with_weights_of(readout, len(rows))(rows, index, dim_size=1)
        torch.testing.assert_close(found[place], alone[0])


def test_graphs_of_similar_sizes_do_not_meet_in_set2set():
    readout = SizedSet2Set(3).double()
    layout = layout_of([7, 4, 5, 0, 7, 9])
    x = torch.randn(32, 3, dtype=torch.float64, requires_grad=True)
    found = readout(x, layout)
    is_its_own = torch.arange(6).eq(4)  # of the graph of four, the last but that without nodes
    (reached,) = torch.autograd.grad(found[is_its_own].sum(), x)
    assert reached[28:].ne(0).all()
    assert reached[:28].eq(0).all()
    x.data[28:] = torch.nan
    spoilt = readout(x, layout)
    assert spoilt[is_its_own].isnan().all()
    torch.testing.assert_close(spoilt[~is_its_own], found[~is_its_own])


@pytest.mark.parametrize("sizes", [[7, 4, 5, 0, 7, 9], [1], [0]])
def test_the_gradients_of_all_steps_are_those_of_small_changes(sizes):
    readout, layout = SizedSet2Set(2).double(), layout_of(sizes)
    names, parameters = zip(*readout.named_parameters(), strict=True)

    def answers(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(readout, given, (x, layout))

    x = torch.randn(sum(sizes), 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(answers, (x, *parameters), fast_mode=True)


def test_an_empty_graph_has_no_steps():
    layout = layout_of([0, 2, 0])
    found = SizedSet2Set(3)(torch.randn(2, 3), layout)
    assert found[1:].eq(0).all()
    assert found[0].ne(0).all()


@pytest.mark.parametrize("name", ["pna", "binary-gru"])
def test_an_aggregator_reads_each_graph_out(name):
    readout = AggregatorReadout(treefold.aggregator(name, 3)).double().eval()
    layout = layout_of([2, 4])
    x = torch.randn(6, 3, dtype=torch.float64)
    expected = readout.aggregator(x, torch.tensor([0, 0, 0, 0, 1, 1]))
    torch.testing.assert_close(readout(x, layout), expected)
    assert expected.shape[1] == readout.out_channels
