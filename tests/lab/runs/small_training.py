"""A small training with many optimisers and schedules, and whether two states are the same."""

import copy
from functools import partial

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
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)

NUM_STEPS = 20


class Transposed(nn.Module):
    """A linear map whose parameter is not contiguous."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5).t())

    def forward(self, x):
        return x @ self.weight


class Run:
    """A small training; as in the engine, each step draws from its number."""

    def __init__(self, seed, make_optimizer, make_scheduler):
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), Transposed(), nn.Linear(6, 1)
        )
        self.optimizer = make_optimizer(self.model.parameters())
        self.scheduler = make_scheduler(self.optimizer)
        self.progress = {"losses": [], "rates": []}

    @property
    def parts(self):
        names = ("model", "optimizer", "scheduler", "progress")
        return {name: getattr(self, name) for name in names}

    def step(self):
        torch.manual_seed(len(self.progress["losses"]))
        x = torch.randn(8, 4)
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
    return copy.deepcopy({**stateful, "others": (run.scheduler.state_dict(), run.progress)})
