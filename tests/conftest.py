"""Small tensors, two workers: one thread each is eight times as fast as letting them compete."""

from pathlib import Path

import pytest
import torch

from treefold import kernels

torch.set_num_threads(1)


def pytest_configure(config):
    """Forget compiled kernels that are older than any kernel's source.

    numba keeps a function on disk until its own file changes, whatever it calls from others.
    """
    folder = Path(kernels.__file__).parent
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
