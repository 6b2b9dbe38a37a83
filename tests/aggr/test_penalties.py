"""The channel by which law losses reach the training loss."""

import math
import threading
import warnings

import pytest
import torch
from aggr.cases import CHANNELS, INDEX, MIXED, UNSORTED, Skewed, every_learned, make, normal, seeded
from torch import nn

from treefold import LCMAggregation, RecurrentAggregation, record_penalties, with_penalties
from treefold.aggr import Penalties

X = normal(len(INDEX), CHANNELS)
LAWS = ["associativity", "commutativity", "identity"]


def lcm(operator=None, **options):
    return make_training(LCMAggregation, operator=operator or Skewed(), **options)


def recurrent(cell="gru", **options):
    return make_training(RecurrentAggregation, cell=cell, **options)


def make_training(kind, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = kind(CHANNELS, **options).double()
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.5)
    return module


WEIGHTED = {
    **{law: lambda law=law, **options: lcm(**{law: 1.0}, **options) for law in LAWS},
    "swap": lambda **options: recurrent(swap=1.0, **options),
    "swap of an LSTM": lambda **options: recurrent("lstm", swap=1.0, **options),
}
weighted = pytest.mark.parametrize("make_module", WEIGHTED.values(), ids=list(WEIGHTED))


def recorded(module, index=UNSORTED):
    with record_penalties() as penalties:
        module(X, index)
    return penalties


@weighted
def test_each_application_records_each_law_once(make_module):
    module = make_module()
    with record_penalties() as penalties:
        for _ in range(3):
            module(X, UNSORTED)
    assert len(penalties) == len(penalties.recorded) == 3
    assert all(penalty.loss > 0 for penalty in penalties.recorded)


def test_several_laws_and_several_layers_are_recorded_together():
    both, swap = lcm(associativity=1.0, identity=2.0), recurrent(swap=3.0)
    with record_penalties() as penalties:
        swap(both(X, UNSORTED), torch.zeros(7, dtype=torch.int64))
    found = [(penalty.law, penalty.weight) for penalty in penalties.recorded]
    assert found == [("associativity", 1.0), ("identity", 2.0), ("swap", 3.0)]


@weighted
def test_the_loss_reaches_every_parameter_and_the_rows(make_module):
    module, x = make_module(), X.clone().requires_grad_()
    with record_penalties() as penalties:
        module(x, UNSORTED)
    penalties.total().backward()
    moved = [name for name, p in module.named_parameters() if p.grad is not None and p.grad.any()]
    assert moved
    assert x.grad.any()


@weighted
def test_training_on_the_penalty_alone_lowers_it(make_module):
    module = make_module(shuffle=False)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        loss = recorded(module).total()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@weighted
def test_evaluation_records_nothing(make_module):
    assert len(recorded(make_module().eval())) == 0


@every_learned
def test_no_weight_records_nothing(name):
    has_weight = name.endswith(("-assoc", "-general")) or name == "finite-selection"
    assert len(recorded(make(name).train())) == has_weight
    laws = (*LAWS, "consistency")
    zero = {"swap": 0.0} if name in ("gru", "lstm") else dict.fromkeys(laws, 0.0)
    if name in ("finite-counters", *MIXED):  # their laws hold, or their parts have the weights
        zero = {}
    assert len(recorded(make(name, **zero).train())) == 0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("operator", ["binary-gru", None])
def test_the_weight_scales_the_total_and_not_the_record(law, operator):
    one, ten = (recorded(lcm(operator, **{law: weight}, shuffle=False)) for weight in (1.0, 10.0))
    torch.testing.assert_close(ten.recorded[0].loss, one.recorded[0].loss)
    torch.testing.assert_close(ten.total(), 10 * one.total())
    assert ten.by_law() == pytest.approx(one.by_law())


@weighted
def test_a_mean_is_the_sum_by_the_width_of_the_laws_state(make_module):
    summed = recorded(make_module(shuffle=False, law_reduction="sum")).total()
    mean = recorded(make_module(shuffle=False, law_reduction="mean")).total()
    # (a e, e a) and (hidden, cell) are twice as wide.
    twice = make_module in (WEIGHTED["identity"], WEIGHTED["swap of an LSTM"])
    torch.testing.assert_close((2 if twice else 1) * CHANNELS * mean, summed)


def test_penalties_add_up_like_numbers():
    penalties = Penalties()
    assert penalties.total() == 0
    assert sum(penalties) == 0
    assert penalties.by_law() == {}
    penalties.add("associativity", torch.tensor(2.0), 0.5)
    penalties.add("swap", torch.tensor(3.0), 2.0)
    penalties.add("associativity", torch.tensor(4.0), 0.5)
    assert penalties.total() == sum(penalties) == 9
    assert penalties.by_law() == {"associativity": 3.0, "swap": 3.0}


def test_an_inner_recorder_keeps_its_own_and_the_outer_one_goes_on():
    module = lcm(associativity=1.0)
    with record_penalties() as outer:
        module(X, UNSORTED)
        with record_penalties() as inner:
            module(X, UNSORTED)
            module(X, UNSORTED)
        module(X, UNSORTED)
    assert (len(outer), len(inner)) == (2, 2)


def test_recording_ends_where_an_error_ends_it():
    module = lcm(associativity=1.0)
    with pytest.raises(RuntimeError), record_penalties():
        raise RuntimeError
    with pytest.warns(UserWarning, match="nobody records"):
        module(X, UNSORTED)


def test_other_threads_do_not_record_here():
    module = lcm(associativity=1.0)
    found = []

    def elsewhere():
        found.append(len(recorded(module)))

    with record_penalties() as penalties:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert (len(penalties), found) == (0, [1])


@weighted
def test_training_without_a_recorder_warns_once_and_says_what_to_do(make_module):
    module = make_module()
    law = next(iter(module.laws.active))
    with pytest.warns(UserWarning, match=rf"{law}=1 has no effect.*record_penalties.*total"):
        module(X, UNSORTED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(X, UNSORTED)
        module.eval()(X, UNSORTED)


@weighted
def test_evaluation_without_a_recorder_does_not_warn(make_module):
    make_module().eval()(X, UNSORTED)


@weighted
@pytest.mark.parametrize("law_nodes", [1, 3])
def test_a_sampled_loss_is_right_on_average(make_module, law_nodes):
    whole = recorded(make_module(shuffle=False)).total()
    module = make_module(shuffle=False, law_nodes=law_nodes, generator=seeded())
    with torch.no_grad():
        draws = torch.stack([recorded(module).total() for _ in range(150)])
    assert (draws.mean() - whole).abs() < 4 * draws.std() / math.sqrt(len(draws))


@weighted
def test_the_record_is_reproducible_under_a_generator(make_module):
    totals = [recorded(make_module(law_nodes=2, generator=seeded(7))).total() for _ in range(2)]
    assert torch.equal(*totals)


@weighted
def test_penalties_do_not_change_the_answer(make_module):
    module = make_module(shuffle=False)
    with record_penalties():
        training = module(X, UNSORTED)
    torch.testing.assert_close(training, module.eval()(X, UNSORTED))


@weighted
def test_recording_without_gradients_still_measures(make_module):
    with torch.no_grad():
        measured = recorded(make_module(shuffle=False)).total()
    torch.testing.assert_close(measured, recorded(make_module(shuffle=False)).total())


@weighted
@pytest.mark.parametrize("index", [torch.arange(len(X)), UNSORTED[:0]], ids=["singles", "no rows"])
def test_where_no_two_meet_there_is_no_loss_but_a_gradient(make_module, index):
    module = make_module()
    with record_penalties() as penalties:
        module(X[: len(index)], index, dim_size=len(X))
    assert len(penalties) == 1
    total = penalties.total()
    assert total.isfinite()
    if "identity" not in module.laws.active or not len(index):
        assert total == 0
    total.backward()  # the graph is there, so that DDP finds every parameter


@weighted
def test_autocast_leaves_the_loss_about_right(make_module):
    module, x = make_module(shuffle=False).float(), X.float()
    with record_penalties() as exact:
        module(x, UNSORTED)
    with record_penalties() as rough, torch.autocast("cpu", dtype=torch.bfloat16):
        module(x, UNSORTED)
    torch.testing.assert_close(rough.total().float(), exact.total(), rtol=0.2, atol=0.05)


# In one line


def test_a_decorated_step_gives_its_loss_with_the_penalties():
    module, x = lcm(associativity=2.0, shuffle=False), normal(7, CHANNELS)
    index = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    with record_penalties() as penalties:
        expected = module(x, index).sum() + penalties.total()

    @with_penalties
    def loss_of(rows, form):
        loss = module(rows, index).sum()
        return {"loss": loss, "plain": loss.item()} if form == "mapping" else loss

    torch.testing.assert_close(loss_of(x, form="tensor"), expected)
    found = loss_of(x, form="mapping")
    torch.testing.assert_close(found["loss"], expected)
    assert found["plain"] != expected.item()
    assert loss_of.__name__ == "loss_of"


def test_a_step_that_leaves_a_batch_out_stays_so_and_what_is_no_loss_is_refused():
    assert with_penalties(lambda: None)() is None
    with pytest.raises(ValueError, match="gives a dict; expected a loss, or a mapping with one"):
        with_penalties(lambda: {"total": torch.ones(())})()
    with pytest.raises(ValueError, match="gives a float; expected a loss"):
        with_penalties(lambda: 1.0)()
