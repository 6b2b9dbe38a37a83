"""A checkpoint that does not fit is refused by name, and nothing is restored."""

import re

import pytest
import torch
from lab.runs.small_training import same
from torch import nn
from torch.optim import Adam, AdamW
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
)

from treefold.checkpoints import Checkpoint
from treefold.lab.runs.state import capture, restore


def linear(width=3, dtype=torch.float32, bias=True):
    model = nn.Sequential(nn.Linear(2, width, bias=bias, dtype=dtype))
    optimizer = Adam(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": ExponentialLR(optimizer, 0.9),
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
        (
            {**linear(), "averaged": nn.Linear(2, 3)},
            "the checkpoint has no part averaged; its parts",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_restored(parts, words):
    saved = capture(**linear())
    before = snapshot(parts)
    with pytest.raises(ValueError, match=re.escape(words)):
        restore(saved, **parts)
    assert same(snapshot(parts), before)


def test_many_differences_are_counted():
    saved = capture(model=nn.Sequential(*[nn.Linear(1, 1)] * 4))
    with pytest.raises(ValueError, match=r"model/2.weight is .* here; and 3 more; build the parts"):
        restore(saved, model=nn.Sequential())


def test_a_checkpoint_with_pieces_missing_is_refused():
    model = nn.Linear(2, 3)
    weight = model.weight.detach().clone()
    with pytest.raises(ValueError, match="has no part model; its parts are none"):
        restore(Checkpoint({}, {}), model=model)
    saved = capture(model=nn.Linear(2, 3))
    del saved.tensors["model/bias"]
    with pytest.raises(ValueError, match="lacks the tensor model/bias"):
        restore(saved, model=model)
    assert torch.equal(model.weight, weight)
