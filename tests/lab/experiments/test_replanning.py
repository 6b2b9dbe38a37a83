"""A run is trained for longer than was planned, or ends sooner, as if planned so from the start."""

import shutil

import pytest
from lab.experiments.small_runs import numbers, small, train

from treefold.lab.experiments.loading import experiment_of
from treefold.lab.experiments.replanning import replan
from treefold.lab.experiments.trainer import Watcher
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.signals import Stopped, StopRequest

NAME = "second-minimum/binary-gru-assoc"
CONSTANT = "training.schedule=constant"


@pytest.fixture(scope="module")
def short(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("short")
    train(folder, world, small(NAME, CONSTANT, "training.epochs=2"))
    return folder


@pytest.fixture(scope="module")
def long(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("long")
    train(folder, world, small(NAME, CONSTANT, "training.epochs=4"))
    return folder


@pytest.fixture
def copy(short, tmp_path):
    return shutil.copytree(short, tmp_path / "copy")


def resume(folder, world, epochs):
    replan(folder, epochs)
    return train(folder, world, experiment_of(Record.read(folder)))


def test_a_finished_run_resumes_to_the_numbers_of_one_that_was_planned_longer(copy, long, world):
    assert resume(copy, world, 4).epochs == 4
    assert numbers(copy) == numbers(long)
    assert Record.read(copy).recipe == Record.read(long).recipe


def test_a_run_that_ends_sooner_is_the_shorter_one(short, tmp_path, world):
    stop = StopRequest()

    def stop_after_two(row, steps):
        if row["epoch"] == 2:
            stop.signal = "SIGTERM"

    planned = small(NAME, CONSTANT, "training.epochs=9")
    with pytest.raises(Stopped):
        train(tmp_path, world, planned, watcher=Watcher(epoch=stop_after_two), stop=stop)
    assert resume(tmp_path, world, 2).status == "finished"
    assert numbers(tmp_path) == numbers(short)


def test_a_record_says_how_many_epochs_were_planned_in_the_end(copy):
    replan(copy, 4)
    record = Record.read(copy)
    assert record.status == "running"
    assert record.recipe["training"]["epochs"] == 4
    assert record.overrides["training.epochs"] == 4
    of_epochs = [said for said in record.departures if "epochs" in said]
    assert of_epochs == ["training.epochs is 4; the paper has 1000"]
    replan(copy, 1000)
    assert not [said for said in Record.read(copy).departures if "epochs" in said]


def test_the_epochs_of_the_preset_are_no_override(copy):
    replan(copy, 3)
    assert Record.read(copy).overrides["training.epochs"] == 3
    replan(copy, 2)
    assert "training.epochs" not in Record.read(copy).overrides


def test_the_epochs_that_are_planned_already_change_nothing(copy):
    before = Record.read(copy)
    replan(copy, 2)
    assert Record.read(copy) == before


def test_fewer_epochs_than_it_has_begun_are_refused(copy):
    with pytest.raises(ValueError, match="has begun epoch 2, and 1 epochs are asked for; expected"):
        replan(copy, 1)
    assert len(MetricsLog.read(copy)) == 2


def test_a_schedule_that_depends_on_the_number_of_epochs_is_refused(undisturbed):
    before = Record.read(undisturbed)
    with pytest.raises(ValueError, match="follows one-cycle") as error:
        replan(undisturbed, 5)
    command = "--preset smoke --seed 1"
    assert f"`treefold train {before.name} {command}" in str(error.value)
    assert "--set training.epochs=5`" in str(error.value)
    assert Record.read(undisturbed) == before
