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
    # Not `kernels`, which numba compiles.
    *(f"treefold.operators.{path.stem}" for path in (SOURCE / "operators").glob("*.py")),
]
"""Shapes and types are checked as tests run; not in `aggr`, where torch.compile looks in, nor in
`incremental`, whose state machines would take ten times as long."""

install_import_hook(CHECKED, "beartype.beartype")

torch.set_num_threads(1)


def pytest_configure(config):
    """Forget compiled kernels that are older than any kernel's source.

    numba keeps a function on disk until its own file changes, whatever it calls from others.
    """
    folder = SOURCE / "operators" / "kernels"
    newest = max(source.stat().st_mtime for source in folder.glob("*.py"))
    if not hasattr(config, "workerinput"):
        for kept in folder.glob("__pycache__/*.nb[ci]"):
            if kept.stat().st_mtime < newest:
                kept.unlink()


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)  # commands that are called in this process set it
