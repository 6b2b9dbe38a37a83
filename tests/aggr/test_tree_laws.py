"""Law losses on trees are those of the algebra on triples found one by one."""

import math

import pytest
import torch
from aggr.cases import CHANNELS, Skewed, make, normal, seeded
from trees import fold_along, trees_of

from treefold import LCMAggregation, law_report, record_penalties
from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_laws import TREE_LAWS
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import ASSOCIATIVITY, COMMUTATIVITY, IDENTITY
from treefold.fold import Groups, TableRows, plan_tree, tree_fold
from treefold.fold.reference import associativity_triples

SIZES = [5, 0, 1, 8, 3, 2, 7, 1, 13]
TOTAL = sum(SIZES)

bracketings = pytest.mark.parametrize("bracketing", ["balanced", "carry", "random"])
reductions = pytest.mark.parametrize("reduction", ["sum", "mean"])
laws = pytest.mark.parametrize("law", TREE_LAWS)
shapes = pytest.mark.parametrize("inner", [(), (3,), (2, 3)], ids=["plain", "towers", "two axes"])


def skewed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Skewed().double()


OPERATORS = {"skewed": skewed, "binary-gru": lambda: make("binary-gru").operator}
operators = pytest.mark.parametrize("make_op", OPERATORS.values(), ids=list(OPERATORS))


def tree_states(op, x, plan):
    return TreeStates.of(plan, x[plan.leaves], tree_fold(op, x, plan).nodes)


def subtrees(tree):
    yield tree
    if isinstance(tree, tuple):
        for part in tree:
            yield from subtrees(part)


def slow_loss(law, op, x, plan, reduction):
    """One fold for each side of every instance of the law, read off nested tuples."""
    trees = [tree for tree in trees_of(plan) if tree is not None]
    parts = [part for tree in trees for part in subtrees(tree)]
    law, instances = {
        "associativity": (
            ASSOCIATIVITY,
            [t for tree in trees for t in associativity_triples(tree)],
        ),
        "commutativity": (COMMUTATIVITY, [part for part in parts if isinstance(part, tuple)]),
        "identity": (IDENTITY, [(part,) for part in parts]),
    }[law]
    elements = [
        torch.stack([fold_along(tree, op, x) for tree in column])
        for column in zip(*instances, strict=True)
    ]
    return law.loss(op, *(element.flatten(0, -2) for element in elements), reduction=reduction)


@laws
@bracketings
@reductions
@operators
@shapes
def test_the_loss_is_that_of_the_law_on_every_instance(law, bracketing, reduction, make_op, inner):
    op, x = make_op(), normal(TOTAL, *inner, CHANNELS)
    plan = plan_tree(SIZES, bracketing, seeded())
    loss = TREE_LAWS[law](op, tree_states(op, x, plan), Sampling(None, reduction))
    torch.testing.assert_close(loss, slow_loss(law, op, x, plan, reduction))


@laws
@bracketings
def test_its_gradient_is_that_of_the_law_on_every_instance(law, bracketing):
    op, x = skewed(), normal(TOTAL, CHANNELS).requires_grad_()
    plan, inputs = plan_tree(SIZES, bracketing, seeded()), [x, *op.parameters()]
    fast = TREE_LAWS[law](op, tree_states(op, x, plan), Sampling())
    slow = slow_loss(law, op, x, plan, "sum")
    grads = [torch.autograd.grad(loss, inputs, materialize_grads=True) for loss in (fast, slow)]
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected)


@bracketings
@pytest.mark.parametrize("num_nodes", [None, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_layer_with_a_table_has_the_loss_and_gradients_of_its_nodes_one_by_one(
    bracketing, num_nodes, dtype
):
    layer = make("binary-gru", dtype, associativity=1.0, law_nodes=num_nodes, shuffle=False).train()
    op, table = layer.operator, normal(4, CHANNELS, dtype=dtype).requires_grad_()
    rows, plan = torch.arange(TOTAL) % 4, plan_tree(SIZES, bracketing, seeded())
    layer.generator = seeded(1)
    with record_penalties() as penalties:
        out = layer.aggregate(TableRows(table, rows), Groups.from_sizes(torch.tensor(SIZES)), plan)
    fast = penalties.total()

    states = torch.cat([table[rows[plan.leaves]], tree_fold(op, table[rows], plan).nodes])
    is_node = plan.children >= TOTAL
    candidates = is_node.any(1).nonzero().squeeze(1)
    chosen = Sampling(num_nodes).choose(candidates, seeded(1))
    distances = [
        (op(op(a, b), c) - op(a, op(b, c))).square().sum()
        for node in chosen.tolist()
        for a, b, c in triples_at(node, plan, states)
    ]
    triples_per_node = int(is_node.sum()) / len(candidates)
    slow = torch.stack(distances).sum() / (triples_per_node * len(chosen))
    torch.testing.assert_close(fast, slow)
    inputs = [table, *op.cell.parameters()]
    groups = tree_fold(op, table[rows], plan).groups
    grads = [
        torch.autograd.grad(out.square().sum() + fast, inputs),
        torch.autograd.grad(groups.square().sum() + slow, inputs),
    ]
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def triples_at(node, plan, states):
    """The elements of the triples at one node, a row each."""
    below = {place: plan.children[place - TOTAL].tolist() for place in range(TOTAL, len(states))}
    left, right = plan.children[node].tolist()
    if left in below and right in below:
        (a, b), (c, d) = below[left], below[right]
        triples = [(a, b, c), (b, c, d)]
    else:
        triples = [(*below[left], right) if left in below else (left, *below[right])]
    return [[states[place : place + 1] for place in triple] for triple in triples]


def test_the_papers_triples_are_the_ones_counted():
    def pairs_of(op, loss, sizes):  # with subtraction a triple costs (2 c)², whatever a and b are
        x = torch.ones(sum(sizes), 1, dtype=torch.float64)
        plan = plan_tree(sizes)
        return loss(op, tree_states(op, x, plan), Sampling())

    class Subtraction:
        identity = torch.zeros(1, dtype=torch.float64)

        def __call__(self, a, b):
            return a - b

    # ((1 1) 1) or (1 (1 1)): one triple of ones; ((1 1) (1 1)): two.
    assert pairs_of(Subtraction(), TREE_LAWS["associativity"], [3]) == 4
    assert pairs_of(Subtraction(), TREE_LAWS["associativity"], [4]) == 4
    assert pairs_of(Subtraction(), TREE_LAWS["associativity"], [2, 1]) == 0


@laws
@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_a_sampled_loss_is_right_on_average(law, num_nodes):
    op, x, plan = skewed(), normal(17, CHANNELS), plan_tree([13, 4])
    tree = tree_states(op, x, plan)
    generator = seeded()
    with torch.no_grad():
        whole = TREE_LAWS[law](op, tree, Sampling())
        draws = torch.stack(
            [TREE_LAWS[law](op, tree, Sampling(num_nodes), generator) for _ in range(300)]
        )
    standard_error = draws.std() / math.sqrt(len(draws))
    assert (draws.mean() - whole).abs() < 4 * standard_error
    assert standard_error > 0


@laws
def test_a_sample_as_large_as_the_tree_is_the_tree(law):
    op, x, plan = skewed(), normal(TOTAL, CHANNELS), plan_tree(SIZES)
    tree = tree_states(op, x, plan)
    sampled = TREE_LAWS[law](op, tree, Sampling(10 * TOTAL), seeded())
    assert torch.equal(sampled, TREE_LAWS[law](op, tree, Sampling()))


@laws
@pytest.mark.parametrize("num_nodes", [None, 3])
@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 1, 1], [2, 1]])
def test_small_trees_cost_nothing_extra_and_give_gradients(law, sizes, num_nodes):
    op, x = skewed(), normal(sum(sizes), CHANNELS)
    plan = plan_tree(sizes)
    loss = TREE_LAWS[law](op, tree_states(op, x, plan), Sampling(num_nodes), seeded())
    assert loss.isfinite()
    if law == "associativity" or sum(sizes) == 0:
        assert loss == 0
    loss.backward()
    assert all(parameter.grad is not None for parameter in op.linear.parameters())


def test_a_choice_has_no_doubles_and_every_candidate_can_be_chosen():
    candidates, generator = torch.arange(10, 17), seeded()
    seen = set()
    for _ in range(100):
        chosen = Sampling(3).choose(candidates, generator).tolist()
        assert len(set(chosen)) == 3
        seen.update(chosen)
    assert seen == set(candidates.tolist())


def test_the_operator_is_applied_five_times_for_two_triples():
    applied = []

    class Counting:
        identity = torch.zeros(CHANNELS, dtype=torch.float64)

        def __call__(self, a, b):
            applied.append(a.shape[0])
            return a + b

    plan = plan_tree([4])
    tree = tree_states(Counting(), normal(4, CHANNELS), plan)
    applied.clear()
    TREE_LAWS["associativity"](Counting(), tree, Sampling())
    assert sum(applied) == 5


def test_the_weight_of_the_identity_trains_e_towards_one():
    torch.manual_seed(0)
    module, x = LCMAggregation(4, "binary-mlp", identity=1.0), torch.randn(40, 4)
    torch.nn.init.constant_(module.operator.identity, 7.0)
    optimizer = torch.optim.Adam(module.parameters(), 0.03)

    def of_e():
        formal, row, *_ = law_report(module.operator, x, generator=seeded()).rows
        assert (formal.law, row.law) == ("identity (formal)", "identity (of e)")
        assert set(formal.absolute) == {0.0}
        return row.relative[0]

    before = of_e()
    for _ in range(150):
        with record_penalties() as penalties:
            module(x, torch.arange(40) // 5)
        assert list(penalties.by_law()) == ["identity"]
        optimizer.zero_grad()
        penalties.total().backward()
        optimizer.step()
    assert of_e() < before / 4
