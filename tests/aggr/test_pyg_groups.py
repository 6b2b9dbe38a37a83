"""Plans are made once per batch where layers share an index, and never confused."""

import gc
import weakref

import pytest
import torch
from aggr.cases import CHANNELS, INDEX, RAGGED, UNSORTED, every, make, normal

from treefold import reuse_plans
from treefold.fold import Groups, plan_of, planning

X = normal(len(INDEX), CHANNELS)
NUM_GROUPS = len(RAGGED)


@pytest.fixture
def planned(monkeypatch):
    """The sizes of every plan that is made."""
    made = []

    def counting(plan):
        return lambda sizes, *rest: made.append(sizes.tolist()) or plan(sizes, *rest)

    for name, plan in planning.REPEATABLE.items():
        monkeypatch.setitem(planning.REPEATABLE, name, counting(plan))
    monkeypatch.setattr(planning, "plan_random", counting(planning.plan_random))
    return made


@every
def test_answers_are_the_same_with_shared_plans(name):
    module = make(name)
    expected = module(X, UNSORTED)
    with reuse_plans():
        for _ in range(3):
            assert torch.equal(module(X, UNSORTED), expected)


@pytest.mark.parametrize("training", [False, True])
def test_layers_over_the_same_index_share_one_plan(planned, training):
    layers = [make(name).train(training) for name in ("binary-gru", "binary-mlp", "conjugated-sum")]
    with reuse_plans():
        for layer in layers:
            layer(X, UNSORTED)
    assert len(planned) == 1


def test_outside_every_call_makes_its_own(planned):
    module = make("binary-mlp")
    module(X, UNSORTED)
    module(X, UNSORTED)
    assert len(planned) == 2


def test_each_bracketing_has_its_own_plan(planned):
    layers = [make("binary-mlp", eval_bracketing=kind) for kind in ("balanced", "carry") * 2]
    with reuse_plans():
        outs = [layer(X, UNSORTED) for layer in layers]
    assert len(planned) == 2
    assert torch.equal(outs[0], outs[2])
    assert not torch.equal(outs[0], outs[1])


def test_random_plans_are_never_reused(planned):
    module = make("binary-mlp", eval_bracketing="random")
    with reuse_plans():
        for _ in range(4):
            module(X, UNSORTED)
    assert len(planned) == 4


def test_other_indices_get_their_own_plans(planned):
    module = make("binary-mlp")
    other = 6 - UNSORTED
    with reuse_plans():
        outs = [module(X, index) for index in (UNSORTED, other, UNSORTED, other)]
    assert len(planned) == 2
    torch.testing.assert_close(outs[2], outs[0])
    torch.testing.assert_close(outs[3], module(X, other))


def test_a_change_in_place_is_noticed(planned):
    module, index = make("binary-mlp"), UNSORTED.clone()
    with reuse_plans():
        before = module(X, index)
        index[0] = 1
        after = module(X, index)
    assert len(planned) == 2
    torch.testing.assert_close(before, module(X, UNSORTED))
    torch.testing.assert_close(after, module(X, index))


def test_a_change_through_a_view_is_noticed():
    module, index = make("binary-mlp"), UNSORTED.clone()
    with reuse_plans():
        module(X, index)
        index[:3].fill_(1)
        torch.testing.assert_close(module(X, index), make("binary-mlp")(X, index.clone()))


def test_views_of_one_memory_are_told_apart():
    module, both = make("binary-mlp"), torch.stack([UNSORTED, INDEX], 1).contiguous()
    with reuse_plans():
        first, second = module(X, both[:, 0]), module(X, both[:, 1])
        short = module(X[:9], both[:9, 0])
    torch.testing.assert_close(first, module(X, UNSORTED))
    torch.testing.assert_close(second, module(X, INDEX))
    torch.testing.assert_close(short, module(X[:9], UNSORTED[:9]))


def test_dim_size_is_part_of_the_question():
    module = make("binary-mlp")
    with reuse_plans():
        assert module(X, UNSORTED).shape[0] == NUM_GROUPS
        assert module(X, UNSORTED, dim_size=NUM_GROUPS + 2).shape[0] == NUM_GROUPS + 2
        with pytest.raises(ValueError, match="index holds 6"):
            module(X, UNSORTED, dim_size=3)


def test_ptr_and_no_index_are_told_apart():
    module, ptr = make("binary-mlp"), torch.tensor([0, *RAGGED]).cumsum(0)
    with reuse_plans():
        for _ in range(2):
            assert torch.equal(module(X, ptr=ptr), module(X, INDEX))
            assert module(X).shape[0] == 1
            assert module(X[:0]).shape[0] == 1


def test_memory_that_is_freed_and_given_to_another_index_is_no_danger():
    module = make("binary-mlp")
    with reuse_plans():
        for number in range(20):
            index = (UNSORTED + number) % NUM_GROUPS
            torch.testing.assert_close(module(X, index), by_fresh_module(index))
            del index


def by_fresh_module(index):
    groups = Groups.from_index(index.clone(), int(index.max()) + 1)
    return make("binary-mlp").aggregate(X, groups)


def test_wrong_channels_are_still_refused_where_groups_are_known():
    module = make("binary-mlp")
    with reuse_plans():
        module(X, UNSORTED)
        with pytest.raises(ValueError, match="expected"):
            module(X[:, :3], UNSORTED)


@pytest.mark.parametrize("name", ["binary-mlp", "gru", "sum"])
def test_plans_are_shared_in_inference_mode_too(name):
    module = make(name)
    expected = module(X, UNSORTED)
    with torch.inference_mode(), reuse_plans():
        index = UNSORTED.clone()
        for _ in range(2):
            torch.testing.assert_close(module(X.clone(), index), expected)


def test_nothing_is_kept_when_sharing_ends(planned):
    module, index = make("binary-mlp"), UNSORTED.clone()
    with reuse_plans():
        module(X, index)
    with reuse_plans():
        module(X, index)
    assert len(planned) == 2
    alive = weakref.ref(index)
    del index
    gc.collect()
    assert alive() is None


def test_sharing_may_be_nested():
    module = make("binary-mlp")
    expected = module(X, UNSORTED)
    with reuse_plans():
        module(X, UNSORTED)
        with reuse_plans():
            torch.testing.assert_close(module(X, UNSORTED), expected)
        torch.testing.assert_close(module(X, UNSORTED), expected)


def test_a_plan_lives_as_long_as_its_groups(planned):
    groups = Groups.from_sizes([3, 2])
    plan = plan_of(groups, "balanced")
    assert plan_of(groups, "balanced") is plan
    assert planned == [[3, 2]]
    alive = weakref.ref(plan)
    del plan, groups
    gc.collect()
    assert alive() is None


def test_gradients_are_the_same_with_shared_plans():
    module = make("binary-gru")
    grads = []
    for shares in (True, False):
        x = X.clone().requires_grad_()
        if shares:
            with reuse_plans():
                out = module(x, UNSORTED) + module(x * 2, UNSORTED)
        else:
            out = module(x, UNSORTED) + module(x * 2, UNSORTED)
        out.square().sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


@every
def test_what_is_made_in_inference_mode_serves_training_too(name):
    module, groups = make(name), Groups.from_index(UNSORTED, NUM_GROUPS)
    x = X.clone().requires_grad_()
    with reuse_plans():
        with torch.inference_mode():
            expected = module(X, UNSORTED, dim_size=NUM_GROUPS).clone()
            module.aggregate(X, groups)
        for found in (module(x, UNSORTED, dim_size=NUM_GROUPS), module.aggregate(x, groups)):
            torch.testing.assert_close(found.detach(), expected)
            found.sum().backward()
