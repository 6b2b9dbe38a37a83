"""A store in a folder of its own: empty, or with two checkpoints."""

import pytest
from checkpoints.stored import store_of_two

from treefold.checkpoints import CheckpointStore


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path)


@pytest.fixture
def saved(tmp_path):
    return store_of_two(tmp_path)
