"""PyG's aggregator of the same name: its weights are taken over, its arguments are refused."""

import jaxtyping
import pytest
import torch
from aggr.cases import (
    CHANNELS,
    batch,
    normal,
)
from torch import nn
from torch_geometric.nn import aggr as pyg

from treefold import (
    BinaryGRU,
    FoldTree,
    Groups,
    LCMAggregation,
    StreamingFold,
    law_report,
    plan_tree,
    tree_reduce,
)
from treefold.distributed import fold_in_budget, sharded_reduce
from treefold.fold import tree_fold
from treefold.incremental import (
    bracketing_stability,
    chunks_stability,
    fold_chunks,
    sampled_stability,
)


def pyg_and_ours(in_channels, project, training=False):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = pyg.LCMAggregation(in_channels, CHANNELS, project=project).double()
    theirs.train(training)
    return theirs, LCMAggregation.from_pyg(theirs)


@pytest.mark.parametrize(
    ("in_channels", "project"), [(CHANNELS, False), (CHANNELS, True), (6, True)]
)
@pytest.mark.parametrize("training", [False, True])
def test_pygs_weights_give_pygs_answer_on_sets_of_equal_size(in_channels, project, training):
    theirs, ours = pyg_and_ours(in_channels, project, training)
    assert ours.training == training
    for size in range(1, 34):
        x, index = normal(3 * size, in_channels, seed=size), torch.arange(3).repeat_interleave(size)
        torch.testing.assert_close(ours(x, index), theirs(x, index))


@pytest.mark.parametrize("project", [False, True])
def test_pygs_gradients_are_ours_on_sets_of_equal_size(project):
    theirs, ours = pyg_and_ours(CHANNELS, project)
    x, index = normal(21, CHANNELS), torch.arange(3).repeat_interleave(7)
    grads = []
    for module in (theirs, ours):
        leaf = x.clone().requires_grad_()
        module(leaf, index).square().sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(*grads)
    torch.testing.assert_close(ours.operator.cell.weight_ih.grad, theirs.gru_cell.weight_ih.grad)


@pytest.mark.parametrize("project", [False, True])
def test_pyg_depends_on_the_batch_and_we_do_not(project):
    theirs, ours = pyg_and_ours(CHANNELS, project)
    x, index = batch([3, 6])
    for module, depends in ((theirs, True), (ours, False)):
        alone, together = module(x[:3], index[:3])[0], module(x, index)[0]
        assert torch.allclose(alone, together) != depends
    torch.testing.assert_close(ours(x, index)[1], theirs(x, index)[1])  # the largest is unpadded


def test_pygs_weights_are_copied_and_keep_their_type():
    theirs = pyg.LCMAggregation(CHANNELS, CHANNELS).bfloat16()
    ours = LCMAggregation.from_pyg(theirs)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.bfloat16}
    nn.init.zeros_(ours.operator.cell.weight_ih)
    nn.init.zeros_(ours.project[0].weight)
    assert theirs.gru_cell.weight_ih.any()
    assert theirs.lin.weight.any()


@pytest.mark.parametrize("wrong", [nn.Linear(2, 2), pyg.SumAggregation(), LCMAggregation(4), None])
def test_other_modules_are_refused(wrong):
    with pytest.raises(ValueError, match=rf"got a {type(wrong).__name__}; expected PyG's LCM"):
        LCMAggregation.from_pyg(wrong)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((16, 16), {}, "operator is 16; PyG's second argument, out_channels, is not here"),
        ((16, BinaryGRU), {}, r"got the class BinaryGRU; expected one of it: BinaryGRU\(...\)"),
        ((16,), {"project": True}, "project is True; expected a module"),
    ],
)
def test_what_pyg_s_module_would_take_is_refused_at_once(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        LCMAggregation(*arguments, **options)


def test_an_aggregator_in_place_of_its_operator_is_named():
    module = LCMAggregation(4)
    for misused in (law_report, FoldTree):
        with pytest.raises(ValueError, match="got a LCMAggregation; expected its operator"):
            misused(module, torch.randn(5, 4))
    with pytest.raises(ValueError, match=r"give `\.operator`"):
        StreamingFold(module)


@pytest.mark.parametrize(
    "misused",
    [
        lambda module, x, groups: tree_reduce(module, x, plan_tree(groups.sizes)),
        lambda module, x, groups: tree_fold(module, x, plan_tree(groups.sizes)),
        bracketing_stability,
        sampled_stability,
        sharded_reduce,
        lambda module, x, groups: fold_in_budget(module, x, torch.arange(5), groups, 1 << 20),
        lambda module, x, groups: fold_chunks(module, lambda: [x]),
        lambda module, x, groups: chunks_stability(module, lambda: [x]),
    ],
    ids=["tree_reduce", "tree_fold", "spread", "sampled", "sharded", "budget", "chunks", "again"],
)
def test_whoever_folds_with_an_operator_says_that_an_aggregator_is_none(misused, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as outside of tests
    x, groups = torch.randn(5, 4), Groups.from_sizes([3, 2])
    with pytest.raises(ValueError, match=r"got a LCMAggregation; .* give `\.operator`"):
        misused(LCMAggregation(4), x, groups)
