import copy
import math
import random
import re
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adafactor, Adam, AdamW, RMSprop
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)

from treefold.checkpoints import Checkpoint, CheckpointStore
from treefold.training.state import capture, restore

NUM_STEPS = 20


class Transposed(nn.Module):
    """A linear map whose parameter is not contiguous."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5).t())

    def forward(self, x):
        return x @ self.weight


class Run:
    """A small training whose every source of chance and change is a part or a global generator."""

    def __init__(self, seed, make_optimizer, make_scheduler):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.model = nn.Sequential(
            nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), Transposed(), nn.Linear(6, 1)
        )
        self.optimizer = make_optimizer(self.model.parameters())
        self.scheduler = make_scheduler(self.optimizer)
        self.shuffle = torch.Generator().manual_seed(seed)
        self.progress = {"losses": [], "rates": []}

    @property
    def parts(self):
        names = ("model", "optimizer", "scheduler", "shuffle", "progress")
        return {name: getattr(self, name) for name in names}

    def step(self):
        x = torch.randn(8, 4, generator=self.shuffle) + random.random() + np.random.normal()
        loss = (self.model(x) - x.sin().sum(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(loss.item())
        else:
            self.scheduler.step()
        self.progress["losses"].append(loss.item())
        self.progress["rates"].append([float(group["lr"]) for group in self.optimizer.param_groups])

    def train(self, num_steps):
        for _ in range(num_steps):
            self.step()
        return self


def warmup_then_cosine(optimizer):
    schedulers = [LinearLR(optimizer, 0.1, total_iters=5), CosineAnnealingLR(optimizer, 15)]
    return SequentialLR(optimizer, schedulers, milestones=[5])


CASES = {
    "adam-onecycle": (
        partial(Adam, lr=1e-2),
        partial(OneCycleLR, max_lr=1e-2, total_steps=NUM_STEPS + 1),
    ),
    "adamw-cosine": (partial(AdamW, lr=1e-2, amsgrad=True), partial(CosineAnnealingLR, T_max=15)),
    "sgd-plateau": (
        partial(SGD, lr=1e-2, momentum=0.9, nesterov=True),
        partial(ReduceLROnPlateau, patience=1),
    ),
    "plain-sgd-exponential": (partial(SGD, lr=1e-2), partial(ExponentialLR, gamma=0.9)),
    "adam-lambda": (partial(Adam, lr=1e-2), lambda optimizer: LambdaLR(optimizer, decay)),
    "adam-multistep": (partial(Adam, lr=1e-2), partial(MultiStepLR, milestones=[3, 9, 9, 12])),
    "rmsprop-cyclic": (
        partial(RMSprop, lr=1e-2, momentum=0.5),
        partial(CyclicLR, base_lr=1e-3, max_lr=1e-2, step_size_up=4),
    ),
    "adafactor-restarts": (Adafactor, partial(CosineAnnealingWarmRestarts, T_0=6)),
    "tensor-rate-sequential": (
        lambda parameters: AdamW(parameters, lr=torch.tensor(1e-2)),
        warmup_then_cosine,
    ),
}


def decay(step):
    return 0.9**step


def same(a, b):
    """Equal in type and to the bit, strides included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def states(run):
    stateful = {name: getattr(run, name).state_dict() for name in ("model", "optimizer")}
    others = (run.scheduler.state_dict(), run.shuffle.get_state(), run.progress)
    rng = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    return copy.deepcopy({**stateful, "others": others, "rng": rng})


# Going on.


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stop", [0, 7])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(case, stop, tmp_path):
    whole = Run(0, *CASES[case]).train(NUM_STEPS)
    expected = states(whole)

    store = CheckpointStore(tmp_path)
    store.save(capture(**Run(0, *CASES[case]).train(stop).parts))
    resumed = Run(1, *CASES[case])
    restore(store.load(), **resumed.parts)
    resumed.train(NUM_STEPS - stop)

    found = states(resumed)
    assert len(whole.progress["losses"]) == NUM_STEPS
    assert all(map(math.isfinite, whole.progress["losses"]))
    assert [name for name in expected if not same(found[name], expected[name])] == []


@pytest.mark.parametrize("left_out", ["model", "optimizer", "scheduler", "shuffle", "rng"])
def test_every_part_matters(left_out):
    """The comparison above would notice any of them missing."""
    case = CASES["adam-onecycle"]
    whole = Run(0, *case).train(NUM_STEPS)
    saved = capture(**Run(0, *case).train(7).parts)
    resumed = Run(1, *case)
    parts = {name: part for name, part in resumed.parts.items() if name != left_out}
    restore(saved, rng=left_out != "rng", **parts)
    resumed.train(NUM_STEPS - 7)
    assert resumed.progress != whole.progress


def test_a_checkpoint_does_not_change_with_the_run_nor_with_its_restoration():
    run = Run(0, *CASES["adam-onecycle"]).train(7)
    saved = capture(**run.parts)
    copies = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    run.train(3)
    for _ in range(2):
        restore(saved, **run.parts)
        assert len(run.progress["losses"]) == 7
        run.train(13)
    assert all(torch.equal(saved.tensors[name], copies[name]) for name in copies)
    assert len(saved.state["progress"]["losses"]) == 7
    assert saved.state["scheduler"]["last_epoch"] == 7


def test_capturing_changes_nothing():
    whole = Run(0, *CASES["adam-onecycle"]).train(NUM_STEPS)
    watched = Run(0, *CASES["adam-onecycle"])
    for _ in range(NUM_STEPS):
        capture(**watched.parts)
        watched.step()
    assert watched.progress == whole.progress


# Names.


def test_tensors_are_named_for_where_they_belong():
    run = Run(0, *CASES["adam-onecycle"]).train(1)
    saved = capture(**run.parts)
    assert {
        "model/0.weight",
        "model/1.running_mean",
        "model/3.weight",
        "optimizer/state/3/exp_avg",
        "optimizer/state/0/step",
        "generator/shuffle",
        "rng/torch",
    } <= saved.tensors.keys()
    assert {name.split("/")[0] for name in saved.tensors} == {
        "model",
        "optimizer",
        "generator",
        "rng",
    }
    assert saved.state["progress"] == run.progress
    assert saved.state["rng"]["python"] == random.getstate()
    assert saved.state["rng"]["numpy"]["bit_generator"] == "MT19937"
    assert saved.state["scheduler"]["last_epoch"] == 1


def test_every_accelerator_has_its_random_state(monkeypatch):
    restored = {}
    cuda = [torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([3, 4], dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda value, device: restored.update({device: value.tolist()})
    )
    saved = capture()
    assert saved.tensors["rng/cuda/1"].tolist() == [3, 4]
    restore(saved)
    assert restored == {0: [1, 2], 1: [3, 4]}
    restored.clear()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    restore(saved)
    assert restored == {0: [1, 2]}


def test_two_tensors_of_one_name_are_refused():
    part = {"shuffle": torch.ones(1)}
    with pytest.raises(ValueError, match="two tensors are called generator/shuffle"):
        capture(shuffle=torch.Generator(), generator=part)
    with pytest.raises(ValueError, match="a part cannot be called expected"):
        capture(expected={})


# What is kept, and what is not.


def test_tied_weights_come_back_equal(tmp_path):
    def tied():
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    model, other = tied(), tied()
    store = CheckpointStore(tmp_path)
    store.save(capture(model=model))
    restore(store.load(), model=other)
    assert torch.equal(other[0].weight, model[0].weight)
    assert other[1].weight is other[0].weight


def test_half_precision_weights_come_back(tmp_path):
    run = Run(0, partial(SGD, lr=0.1, momentum=0.9), partial(ExponentialLR, gamma=0.5))
    model = run.model.to(torch.bfloat16)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    store = CheckpointStore(tmp_path)
    store.save(capture(model=model, optimizer=optimizer))
    expected = optimizer.state_dict(), {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    fresh = SGD(model.parameters(), lr=0.1, momentum=0.9)
    restore(store.load(), model=model, optimizer=fresh)
    assert same(fresh.state_dict(), expected[0])
    assert same(dict(model.state_dict()), expected[1])


def test_tuples_and_integer_keys_come_back_as_such(tmp_path):
    part = {"betas": (0.9, 0.999), "by epoch": {1: "a", 2: ("b", [None, True])}}
    store = CheckpointStore(tmp_path)
    store.save(capture(part=part))
    found = {"stale": 1}
    restore(store.load(), part=found)
    assert same(found, part)


def test_some_parts_can_be_restored_and_chance_left_alone():
    saved = capture(**Run(0, *CASES["adam-onecycle"]).train(3).parts)
    other = Run(1, *CASES["adam-onecycle"])
    before = states(other)
    restore(saved, rng=False, model=other.model)
    after = states(other)
    assert torch.equal(other.model[0].weight, saved.tensors["model/0.weight"])
    unchanged = [name for name in before if same(before[name], after[name])]
    assert unchanged == ["optimizer", "others", "rng"]


class Warmup:
    """A schedule that is an object, so that LambdaLR keeps its attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __call__(self, step):
        return 1.0


def test_a_schedule_that_is_an_object_is_kept_if_it_is_plain():
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    saved = capture(scheduler=LambdaLR(optimizer, Warmup(steps=(1, 2), table=torch.ones(3))))
    other = Warmup(steps=(), table=None)
    restore(saved, scheduler=LambdaLR(optimizer, other))
    assert other.steps == (1, 2)
    assert other.table.tolist() == [1, 1, 1]


def test_a_schedule_that_only_pickle_could_keep_is_refused_by_name():
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = LambdaLR(optimizer, Warmup(shape=np.cos))
    with pytest.raises(
        TypeError, match="scheduler/lr_lambdas/0/shape is of type ufunc, which JSON"
    ):
        capture(scheduler=scheduler)


def test_a_part_without_state_is_refused():
    with pytest.raises(TypeError, match="epoch is of type int; expected a module"):
        capture(epoch=3)
    with pytest.raises(TypeError, match="epoch is of type int; expected a module"):
        restore(capture(epoch={}), epoch=3)


# What does not fit.


def linear(width=3, dtype=torch.float32, bias=True):
    model = nn.Sequential(nn.Linear(2, width, bias=bias, dtype=dtype))
    optimizer = Adam(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": ExponentialLR(optimizer, 0.9),
        "shuffle": torch.Generator(),
        "progress": {"epoch": 1},
    }


def two_groups():
    parts = linear()
    parts["optimizer"].add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    return parts


def snapshot(parts):
    saved = capture(**parts)
    return saved.tensors, saved.state


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            linear(width=4),
            "model/0.weight is float32[3, 2] in the checkpoint, but float32[4, 2] here",
        ),
        (
            linear(dtype=torch.float64),
            "model/0.bias is float32[3] in the checkpoint, but float64[3]",
        ),
        (linear(bias=False), "model/0.bias is float32[3] in the checkpoint, but missing here"),
        (
            {**linear(), "model": nn.Sequential(nn.Linear(2, 3), nn.PReLU())},
            "model/1.weight is missing in the checkpoint, but float32[1] here",
        ),
        (
            {**linear(), "optimizer": linear(width=4)["optimizer"]},
            "optimizer/param_groups/0/params/1 is float32[3] in the checkpoint, but float32[4]",
        ),
        (
            two_groups(),
            "optimizer/param_groups/1/params/0 is missing in the checkpoint, but float32[1] here",
        ),
        (
            {**linear(), "optimizer": AdamW(linear()["model"].parameters())},
            "optimizer is Adam in the checkpoint, but AdamW here",
        ),
        (
            {**linear(), "scheduler": CosineAnnealingLR(linear()["optimizer"], 3)},
            "scheduler is ExponentialLR in the checkpoint, but CosineAnnealingLR here",
        ),
        ({**linear(), "progress": torch.Generator()}, "generator/progress is missing in the check"),
        (
            {**linear(), "averaged": nn.Linear(2, 3)},
            "the checkpoint has no part averaged; its parts",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_restored(parts, words):
    saved = capture(**linear())
    torch.rand(1)
    before = snapshot(parts)
    with pytest.raises(ValueError, match=re.escape(words)):
        restore(saved, **parts)
    assert same(snapshot(parts), before)


def test_many_differences_are_counted():
    saved = capture(model=nn.Sequential(*[nn.Linear(1, 1)] * 4))
    with pytest.raises(ValueError, match=r"model/2.weight is .* here; and 3 more; build the parts"):
        restore(saved, model=nn.Sequential())


class Stubborn(nn.Module):
    """A module that fails after others have been restored."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def get_extra_state(self):
        return {"fails": False}

    def set_extra_state(self, state):
        if self.fails:
            self.fails = False
            raise RuntimeError("not today")


def test_a_failure_midway_puts_everything_back():
    first, second = linear(), linear()
    saved = capture(**first, stubborn=Stubborn(fails=False))
    second["progress"]["epoch"] = 5
    parts = {**second, "stubborn": Stubborn(fails=True)}
    torch.rand(1)
    before = snapshot(parts)
    with pytest.raises(RuntimeError, match="not today"):
        restore(saved, **parts)
    assert same(snapshot(parts), before)
    restore(saved, **parts)
    assert second["progress"] == {"epoch": 1}
    assert torch.equal(second["model"][0].weight, first["model"][0].weight)


def test_a_checkpoint_with_pieces_missing_is_refused():
    model = nn.Linear(2, 3)
    weight = model.weight.detach().clone()
    with pytest.raises(ValueError, match="was not made by `capture`"):
        restore(Checkpoint({}, {}), model=model)
    with pytest.raises(ValueError, match="no random states; restore it with rng=False"):
        restore(capture(rng=False, model=model), model=model)
    saved = capture(model=nn.Linear(2, 3))
    del saved.tensors["model/bias"]
    with pytest.raises(ValueError, match="lacks the tensor model/bias"):
        restore(saved, model=model)
    assert torch.equal(model.weight, weight)
