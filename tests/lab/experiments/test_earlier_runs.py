"""Runs that an earlier treefold began are read, resumed and evaluated by this one."""

import shutil
from pathlib import Path

import pytest

from treefold.lab.experiments import experiment_of, load_model, run
from treefold.lab.runs import MetricsLog, Record, World

EARLIER = Path(__file__).parents[2] / "data" / "runs"


@pytest.mark.parametrize("name", ["second-minimum", "multi-task"])
def test_an_earlier_run_is_resumed_to_the_numbers_it_would_have_had(name, tmp_path):
    folder = shutil.copytree(EARLIER / name, tmp_path / name)
    record = Record.read(folder)
    assert (record.status, record.epochs, len(MetricsLog.read(folder))) == ("stopped", 2, 2)
    assert not load_model(folder).training  # the best so far
    found = run(
        experiment_of(record),
        preset=record.preset,
        seed=record.seed,
        folder=folder,
        world=World(precision="64-true"),
    )
    assert (found.status, found.epochs) == ("finished", 4)
    pairs = zip(MetricsLog.read(folder), MetricsLog.read(folder / "whole"), strict=True)
    for row, expected in pairs:
        del row["seconds"], expected["seconds"]
        # Kernels have changed since: sums are rounded in another order.
        assert row == pytest.approx(expected, rel=1e-5, abs=1e-9)
