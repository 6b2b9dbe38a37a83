"""One world, and one run that nothing disturbs, for all claims about runs."""

import pytest
from lab.experiments.small_runs import train

from treefold.lab.runs.world import World


@pytest.fixture(scope="session")
def world():
    return World()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("undisturbed")
    train(folder, world)
    return folder
