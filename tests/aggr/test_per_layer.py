"""Ready models of PyG, with an aggregator per layer or across relations, and explained."""

import pytest
import torch
from aggr.cases import CHANNELS, every, make, normal
from torch import nn
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer
from torch_geometric.nn import GAT, GIN, GraphSAGE, SAGEConv

import treefold
from treefold import AcrossRelations, LCMAggregation, aggregator_per_layer

EDGES = torch.tensor([[1, 0, 3, 2, 1, 4, 0], [3, 1, 0, 1, 3, 1, 4]])
X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("model", [GraphSAGE, GIN, GAT])
def test_every_layer_of_a_ready_model_gets_its_own_as_wide_as_its_messages(model):
    network = aggregator_per_layer(model(3, 8, num_layers=3, out_channels=2), "gru", X, EDGES)
    aggregators = [layer.aggr_module for layer in network.convs]
    assert len({id(each) for each in aggregators}) == 3
    first = 8 if model is GAT else 3
    assert [each.channels for each in aggregators] == [first, 8, 2 if model is GAT else 8]
    network(X, EDGES).square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_maker_may_be_given_and_the_rest_of_the_model_stays_as_it_is():
    network = GraphSAGE(3, 3, num_layers=2, dropout=0.5).double()
    network.convs[0].lin_l.eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    aggregator_per_layer(network, lambda n: LCMAggregation(n, "binary-mlp"), X.double(), EDGES)
    after = network.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert network.training
    assert network.convs[1].aggr_module.training
    assert not network.convs[0].lin_l.training
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float64}


def test_a_sparse_matrix_goes_through_the_new_aggregator_too():
    network = aggregator_per_layer(GraphSAGE(3, 3, num_layers=1), "max", X, EDGES).eval()
    distinct = EDGES[:, [0, 1, 2, 3, 5, 6]]
    sparse = torch.sparse_coo_tensor(
        distinct.flip(0), torch.ones(6), (5, 5), check_invariants=True
    ).coalesce()
    torch.testing.assert_close(network(X, sparse), network(X, distinct))


def test_what_cannot_be_put_into_layers_is_refused():
    with pytest.raises(ValueError, match=r"Linear has no layer of PyG \(MessagePassing\)"):
        aggregator_per_layer(nn.Linear(2, 2), "sum", X)
    with pytest.raises(ValueError, match=r"makes 36 channels of 3, and layers of a ready model"):
        aggregator_per_layer(GraphSAGE(3, 8, num_layers=1), "pna", X, EDGES)
    network = GraphSAGE(3, 8, num_layers=1)
    network.spare = SAGEConv(3, 8)
    with pytest.raises(ValueError, match=r"SAGEConv.* aggregates no messages of these inputs"):
        aggregator_per_layer(network, "sum", X, EDGES)


# Across relations


USERS, ITEMS = normal(3, CHANNELS, seed=1), normal(2, CHANNELS, seed=2)
RELATIONS = {
    ("user", "likes", "item"): torch.tensor([[0, 2, 1], [1, 1, 0]]),
    ("user", "buys", "item"): torch.tensor([[1, 1], [0, 1]]),
    ("item", "of", "user"): torch.tensor([[0, 1], [2, 0]]),
}


@every
def test_answers_of_relations_are_a_set_for_the_aggregator(name):
    layers = {kind: SAGEConv((CHANNELS, CHANNELS), CHANNELS) for kind in RELATIONS}
    module = AcrossRelations(layers, make(name)).double().eval()
    given = {"user": USERS, "item": ITEMS}
    out = module(given, RELATIONS)
    for node in range(2):
        answers = [
            layers[kind]((USERS, ITEMS), RELATIONS[kind])[node] for kind in list(RELATIONS)[:2]
        ]
        torch.testing.assert_close(out["item"][node], module.aggregator([torch.stack(answers)])[0])
    sum(each.square().sum() for each in out.values()).backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    module.reset_parameters()


def test_a_type_without_relations_in_a_batch_has_those_that_are_there():
    layers = {kind: SAGEConv((CHANNELS, CHANNELS), CHANNELS) for kind in RELATIONS}
    module = AcrossRelations(layers, make("binary-gru")).double().eval()
    kind = ("user", "likes", "item")
    out = module({"user": USERS, "item": ITEMS}, {kind: RELATIONS[kind]})
    assert list(out) == ["item"]
    torch.testing.assert_close(out["item"], layers[kind]((USERS, ITEMS), RELATIONS[kind]))


# Explanations


class Largest(nn.Module):
    """The largest of the neighbours' numbers, by a learned monoid that is one: nothing to train."""

    def __init__(self):
        super().__init__()
        operator = treefold.operators.Conjugated.max(2)
        for parameter in operator.parameters():
            nn.init.zeros_(parameter)  # the bijection is the identity
        self.conv = SAGEConv(2, 2, aggr=LCMAggregation(2, operator), root_weight=False, bias=False)
        self.conv.aggr_module.operator.load_state_dict(operator.state_dict())
        for parameter in operator.parameters():
            nn.init.zeros_(parameter)
        nn.init.eye_(self.conv.lin_l.weight)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)[:, :1]


NUMBERS = torch.tensor([[0.0], [1.0], [5.0], [2.0], [3.0]]).repeat(1, 2)
TO_FIRST = torch.tensor([[1, 2, 3, 4, 1, 3], [0, 0, 0, 0, 2, 4]])


def assert_finds_the_edge_that_decides(algorithm):
    explainer = Explainer(
        Largest(),
        algorithm,
        explanation_type="model",
        node_mask_type=None,
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )
    mask = explainer(NUMBERS, TO_FIRST, index=0).edge_mask
    assert mask.argmax() == 1
    assert mask[1] > 2 * mask[[0, 2, 3]].max()


def test_gnn_explainer_finds_the_edge_that_decides():
    torch.manual_seed(0)
    assert_finds_the_edge_that_decides(GNNExplainer(epochs=100, lr=0.1))


def test_captum_s_attributions_add_up_through_an_aggregator():
    captum = pytest.importorskip("captum.attr", reason="an extra is not installed")
    torch.manual_seed(0)
    module = LCMAggregation(3, "gated-selection", shuffle=False).double()
    x, index = normal(6, 3), torch.tensor([0, 0, 1, 0, 1, 1])

    def answer(rows):
        return torch.stack([module(each, index, dim_size=2)[0].sum() for each in rows])

    gradients = captum.IntegratedGradients(answer)
    found, gap = gradients.attribute(x[None], n_steps=200, return_convergence_delta=True)
    assert abs(float(gap)) < 1e-3 * float(found.abs().sum())
    assert found[0][index == 0].abs().sum() > 0
    assert not found[0][index == 1].any()  # of the other set


def test_captum_through_pygs_explainer_finds_the_edge_that_decides():
    pytest.importorskip("captum", reason="an extra is not installed")
    assert_finds_the_edge_that_decides(CaptumExplainer("IntegratedGradients"))
