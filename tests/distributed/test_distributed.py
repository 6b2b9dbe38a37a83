"""Processes that fold together get what one process would, bit for bit, gradients included."""

import pytest
import torch
from distributed.processes import in_processes
from distributed.shard_cases import (
    CUTS,
    NUM_GROUPS,
    OPERATORS,
    TOTALS,
    all_rows,
    cuts,
    fold_all_cuts,
    in_one_process,
)
from trees import seeded

from treefold import Groups, plan_tree, tree_reduce
from treefold.algebra import Sum
from treefold.distributed import sharded_reduce
from treefold.incremental import sampled_stability


@pytest.fixture(scope="module", params=[2, 4])
def folded(request, tmp_path_factory):
    """The results of every rank, for all cuts."""
    return in_processes(request.param, fold_all_cuts, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("cut", CUTS)
def test_states_are_those_of_one_process_to_the_last_bit(folded, cut):
    alone = in_one_process(OPERATORS["Bent"], len(folded))
    for rank in folded:
        assert torch.equal(rank[f"Bent {cut}"]["states"], alone["states"])


@pytest.mark.parametrize("cut", CUTS)
def test_a_learned_operator_gives_the_same_to_rounding(folded, cut):
    alone = in_one_process(OPERATORS["_binary_gru"], len(folded))
    for rank in folded:  # multiplications round differently with other numbers of rows
        torch.testing.assert_close(rank[f"_binary_gru {cut}"]["states"], alone["states"])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_are_those_of_the_sum_of_all_losses(folded, cut, name):
    alone = in_one_process(OPERATORS[name], len(folded))
    found = [rank[f"{name} {cut}"] for rank in folded]
    by_group = [part["rows"].split(sizes.tolist()) for part, sizes in
                zip(found, cuts(cut, len(folded)), strict=True)]  # fmt: skip
    rows = torch.cat([rank[group] for group in range(NUM_GROUPS) for rank in by_group])
    torch.testing.assert_close(rows, alone["rows"])
    for key in alone:
        if key.startswith("grad "):
            torch.testing.assert_close(sum(part[key] for part in found), alone[key])


def test_exact_monoids_and_tables_fold_too(folded):
    x, groups = torch.cat(all_rows()), Groups.from_sizes(TOTALS)
    sums = torch.stack([rows.sum(0) for rows in all_rows()])
    for rank in folded:
        torch.testing.assert_close(rank["other"]["sum"], sums)
        means = (sums / TOTALS.clamp(min=1)[:, None])[TOTALS > 0]
        torch.testing.assert_close(rank["other"]["mean"][TOTALS > 0], means)
        op = OPERATORS["_binary_gru"]()
        alone = tree_reduce(op, x[groups.order], plan_tree(TOTALS)).detach()
        torch.testing.assert_close(rank["other"]["table"], alone)


def test_without_parameters_a_rank_that_holds_nothing_still_takes_part_in_the_gradient(folded):
    expected = [2 * len(folded) * rows.sum(0).expand_as(rows) for rows in all_rows()]
    sizes = cuts("uneven", len(folded))
    by_group = [rank["other"]["grad of sum"].split(size.tolist()) for rank, size in
                zip(folded, sizes, strict=True)]  # fmt: skip
    found = [torch.cat([rank[group] for rank in by_group]) for group in range(NUM_GROUPS)]
    torch.testing.assert_close(torch.cat(found), torch.cat(expected))


def test_by_shard_folds_each_shard_and_then_the_shards(folded):
    op, sizes = OPERATORS["Bent"](), cuts("uneven", len(folded))
    for group, rows in enumerate(all_rows()):
        kept = sizes[:, group][sizes[:, group] > 0]
        states = tree_reduce(op, rows, plan_tree(kept))
        whole = tree_reduce(op, states, plan_tree([len(kept)]))[0]
        for rank in folded:
            assert torch.equal(rank["other"]["by-shard"][group], whole.detach())


def test_all_find_the_same_stability_and_an_exact_monoid_is_stable(folded):
    for rank in folded:
        assert rank["other"]["stability"].equal(folded[0]["other"]["stability"])
        assert rank["other"]["stability"].shape == (8, 3)
        assert rank["other"]["stability"].amax() > 1e-6
        assert rank["other"]["stability of sum"].eq(0).all()


def test_the_stability_of_processes_is_that_of_one(folded):
    x, groups = torch.cat(all_rows()), Groups.from_sizes(TOTALS)
    seed = int(torch.randint(2**62, (1,), generator=seeded(0)))  # as the first rank draws it
    alone = sampled_stability(OPERATORS["_binary_gru"](), x, groups, 3, generator=seeded(seed))
    torch.testing.assert_close(folded[0]["other"]["stability"], alone.absolute)


def test_processes_that_do_not_fit_together_all_say_so(folded):
    for rank in folded:
        message = bytes(rank["other"]["mismatch"].tolist()).decode()
        assert "rank 0 has 1 groups" in message
        assert "rank 1 has 2 groups" in message


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("bracketing", "bracketing 'by-shard'", "bracketing 'balanced'"),
        ("plan or none", "bracketing 'balanced'", "a plan that fits its rows"),
        ("plans", "for parts [7, 7", "a plan that fits its rows"),
        ("plan of another rank", "a plan that does not fit its rows", "a plan that fits"),
    ],
)
def test_processes_that_mean_other_trees_all_say_so(folded, what, first, second):
    for rank in folded:
        message = bytes(rank["other"][f"other {what}"].tolist()).decode()
        of_first, of_second = message.split("; ")[:2]
        assert first in of_first
        assert second in of_second


def test_without_torch_distributed_one_process_is_the_world():
    x, groups = torch.cat(all_rows()), Groups.from_sizes(TOTALS)
    assert torch.equal(sharded_reduce(Sum(), x, groups), tree_reduce(Sum(), x, plan_tree(TOTALS)))
    with pytest.raises(ValueError, match="3 rows, but the groups are for 217"):
        sharded_reduce(Sum(), x[:3], groups)


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="nccl needs two GPUs, and there are fewer here"
)
def test_nccl_gives_the_same(tmp_path):
    alone = in_one_process(OPERATORS["Bent"], 2)
    for rank in in_processes(2, fold_on_gpus, tmp_path, backend="nccl"):
        torch.testing.assert_close(rank["states"], alone["states"])


def fold_on_gpus(rank, world_size):
    from distributed.shard_cases import Bent, rows_of  # noqa: PLC0415

    x, groups = rows_of(rank, cuts("uneven", world_size))
    x, op = x.cuda().requires_grad_(), Bent().cuda()
    states = sharded_reduce(op, x, groups.to("cuda"))
    states.sum().backward()
    return {"states": states.detach().cpu(), "rows": x.grad.cpu()}
