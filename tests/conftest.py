"""Small tensors, two workers: one thread each is eight times as fast as letting them compete."""

from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src" / "treefold"
CHECKED = [
    *("treefold.algebra", "treefold.fold", "treefold.distributed", "treefold.checkpoints"),
    *("treefold.lab.tasks", "treefold.lab.networks", "treefold.lab.runs"),
    *("treefold.lab.experiments", "treefold.lab.report"),
    *(f"treefold.operators.{path.stem}" for path in (SOURCE / "operators").glob("*.py")),
]
"""Shapes and types are checked as tests run; not in `aggr`, where torch.compile looks in, nor in
`incremental`, whose state machines would take ten times as long."""

install_import_hook(CHECKED, "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)  # commands that are called in this process set it
