"""The loop: exact sums, exact continuation, and penalties in the loss."""

import itertools
import signal

import pytest
import torch

import treefold
from treefold.fold import TableRows
from treefold.lab.experiments.set_runner import loss_and_correct
from treefold.lab.networks import SetNetwork
from treefold.lab.runs.loop import Progress, fit, num_steps
from treefold.lab.runs.signals import stop_on_signals
from treefold.lab.runs.violations import violations_on
from treefold.lab.runs.world import World
from treefold.lab.tasks import KthSmallest

TASK = KthSmallest(num_train=50, max_train_size=6)


@pytest.fixture(scope="module")
def world():
    return World()


def violations_in(model, data):
    rows = TableRows(model.table(), data.values)
    return violations_on(model.aggregator, rows, data.groups)


def parts(world, name="binary-gru-assoc", **options):
    torch.manual_seed(0)
    model = SetNetwork(8, 8, 8, treefold.aggregator(name, 8, **options))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0, total_iters=0)
    return model, optimizer, schedule, world.wrap(model, optimizer)


def run(world, steps, progress=None, made=None, **options):
    model, _, schedule, (wrapped, wrapped_optimizer) = made or parts(world, **options)
    progress = progress or Progress()
    loop = fit(world, wrapped, wrapped_optimizer, schedule, TASK.train(0), loss_and_correct,
               batch_size=16, clip_norm=None, seed=3, progress=progress)  # fmt: skip
    seen = [(p.epoch, p.step, p.sets, p.loss) for p in itertools.islice(loop, steps)]
    return seen, model, progress


def test_epochs_have_all_sets_and_a_smaller_last_batch(world):
    seen, _, _ = run(world, 8)
    assert num_steps(50, 16) == 4
    assert [(epoch, step, sets) for epoch, step, sets, _ in seen] == [
        *[(1, 1, 16), (1, 2, 32), (1, 3, 48), (1, 4, 50)],
        *[(2, 1, 16), (2, 2, 32), (2, 3, 48), (2, 4, 50)],
    ]


def test_going_on_from_any_step_gives_the_same_losses(world):
    whole, expected, _ = run(world, 7)
    made = parts(world)
    first, _, progress = run(world, 5, made=made)
    second, found, _ = run(world, 2, progress, made)
    assert first + second == whole
    for one, other in zip(found.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)


def test_batches_may_be_the_same_in_every_epoch(world):
    _, _, schedule, (wrapped, wrapped_optimizer) = parts(world)
    taken = []

    def loss_of(model, batch):
        taken.append(batch.answers.tolist())
        return loss_and_correct(model, batch)

    def in_order(data, batch_size, generator):
        return torch.arange(len(data)).split(batch_size)

    data = TASK.train(0)
    loop = fit(world, wrapped, wrapped_optimizer, schedule, data, loss_of, batch_size=25,
               clip_norm=None, seed=3, progress=Progress(), batches=in_order)  # fmt: skip
    assert [(p.epoch, p.step) for p in itertools.islice(loop, 4)] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    assert taken[0] + taken[1] == taken[2] + taken[3] == data.answers.tolist()


class SecondOfTwo(World):
    """The second process of a world of two, alone: its gradients are its own."""

    rank, size = 1, 2


@pytest.mark.parametrize(("num_examples", "weight"), [(1, 0), (2, 1), (3, 2 / 3)])
def test_gradients_of_a_process_weigh_as_many_examples_as_it_has(world, num_examples, weight):
    data = TASK.train(0)

    def gradient(here, chosen):
        model, _, schedule, (wrapped, optimizer) = parts(world, "sum")
        loop = fit(here, wrapped, optimizer, schedule, data, loss_and_correct, batch_size=3,
                   clip_norm=None, seed=3, progress=Progress(),
                   batches=lambda *_: [chosen])  # fmt: skip
        loss = next(loop).loss
        return loss, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    loss, found = gradient(SecondOfTwo(), torch.arange(num_examples))
    loss_alone, alone = gradient(world, torch.tensor([1]))
    assert loss == (loss_alone if weight else 0)
    torch.testing.assert_close(found, weight * alone)


def test_law_losses_are_part_of_what_is_minimised(world):
    _, with_law, progress = run(world, 4, associativity=100.0)
    _, without, _ = run(world, 4, associativity=0.0)
    assert progress.penalties["associativity"] > 0
    data = TASK.validation(0)
    assert (
        violations_in(with_law, data)["associativity"]
        < (violations_in(without, data)["associativity"])
    )


@pytest.mark.parametrize(
    ("name", "laws"),
    [
        ("binary-gru", {"identity", "commutativity", "associativity"}),
        ("lstm", {"swap"}),
        ("gru", {"swap"}),
        ("pna", set()),
    ],
)
def test_violations_are_those_of_the_laws_an_aggregator_should_obey(world, name, laws):
    model = parts(world, name)[0]
    found = violations_in(model, TASK.validation(0))
    assert found.keys() == laws
    assert all(value >= 0 for value in found.values())
    if name == "binary-gru":
        assert found["commutativity"] < 1e-6 < found["associativity"]


def test_signals_are_left_as_they_were():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert not stop
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
