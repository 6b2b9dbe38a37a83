"""A run leaves a complete record, and is not run twice."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from lab.experiments.small_runs import numbers, small, train

from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.recipe import Evaluation
from treefold.lab.experiments.trainer import Trainer, Watcher
from treefold.lab.runs import (
    MetricsLog,
    Record,
    as_json,
)
from treefold.lab.runs.signals import StopRequest
from treefold.lab.runs.world import World
from treefold.lab.tasks import SET_TASKS


def test_a_record_holds_recipe_seed_provenance_and_scores(undisturbed):
    record = Record.read(undisturbed)
    assert record.status == "finished"
    assert (record.name, record.preset, record.seed) == (
        "second-minimum/binary-gru-assoc",
        "smoke",
        1,
    )
    assert record.recipe == small().recipe()
    assert record.epochs == 3
    assert record.metrics["accuracy"].keys() == {"1", "16", "32", "200"}
    assert record.metrics["accuracy@32"] == record.metrics["accuracy"]["32"]
    assert record.versions["torch"].startswith("2.")
    assert record.reported["accuracy@200"]["value"] == 0.822
    assert any("epochs" in sentence for sentence in record.departures)


def test_a_record_names_the_machine_it_was_made_on(undisturbed):
    machine = Record.read(undisturbed).machine
    assert machine.pop("threads") >= 1
    assert machine.pop("kernels")  # such as "C++ for AVX512", or "torch"
    assert machine == {"device": "cpu", "precision": "32-true", "processes": 1}


def test_the_log_has_a_row_per_epoch_with_law_violations(undisturbed):
    rows = MetricsLog.read(undisturbed)
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert all(0 < row["law:associativity"] < 2 for row in rows)
    assert all(row["law:commutativity"] < 1e-5 for row in rows)
    assert rows[0]["train_loss"] != rows[1]["train_loss"]
    assert all(row["train_penalty:associativity"] > 0 for row in rows)


def test_run_folders_hold_no_pickle(undisturbed):
    files = [path for path in Path(undisturbed).rglob("*") if path.is_file()]
    kinds = {path.suffix for path in files if path.parent.name != "tensorboard"}
    assert kinds == {".json", ".csv", ".safetensors"}


def test_only_the_first_process_writes(tmp_path, world, monkeypatch):
    runner = runner_of(small(), seed=1)
    trainer = Trainer(runner, build_model(runner), tmp_path, world)
    monkeypatch.setattr(World, "first", lambda self, action: None)
    trainer.train(Watcher(), StopRequest())
    assert trainer.standing.best_epoch > 0
    assert not (tmp_path / "metrics.csv").exists()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(tmp_path, world, undisturbed):
    train(tmp_path / "same", world)
    train(tmp_path / "other", world, seed=2)
    assert numbers(tmp_path / "same") == numbers(undisturbed)
    assert numbers(tmp_path / "other")[0] != numbers(undisturbed)[0]


def test_evaluation_sizes_do_not_change_the_training(tmp_path, world, undisturbed):
    fewer = dataclasses.replace(small(), evaluation=Evaluation(sizes=(2,)))
    train(tmp_path, world, fewer)
    assert numbers(tmp_path)[0] == numbers(undisturbed)[0]


def test_a_run_without_progress_stops_when_its_patience_ends(tmp_path, world):
    stuck = small("second-minimum/oracle", "training.epochs=9", "training.patience=2")
    record = train(tmp_path, world, stuck)
    assert record.status == "finished"
    assert (record.epochs, record.metrics["best_epoch"]) == (3, 1)
    assert train(tmp_path, world, stuck) == record


def test_a_finished_run_is_not_run_again(undisturbed, world):
    def never(progress, steps):
        raise AssertionError("it was run again")

    assert train(undisturbed, world, watcher=Watcher(step=never)) == Record.read(undisturbed)


def test_a_run_that_is_to_be_evaluated_further_is_not_trained_again(
    tmp_path, world, undisturbed, monkeypatch
):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    before = numbers(tmp_path)
    more = small("second-minimum/binary-gru-assoc", "evaluation.balanced_sizes=4,64")
    steps = []
    watcher = Watcher(step=lambda progress, _: steps.append(progress.step))
    monkeypatch.setattr("treefold.lab.experiments.running.commit", lambda: "a later one")
    record = train(tmp_path, world, more, watcher=watcher)
    assert record.commit != record.metrics["evaluation_commit"] == "a later one"
    assert steps == []
    assert record.status == "finished"
    assert record.recipe == as_json(more.recipe())
    assert record.metrics["balanced_accuracy"].keys() == {"4", "64"}
    rows, metrics, tensors = numbers(tmp_path)
    assert (rows, tensors) == (before[0], before[2])
    assert metrics["accuracy"] == before[1]["accuracy"]


def test_a_folder_with_another_run_is_refused(undisturbed, world):
    with pytest.raises(ValueError, match="holds another run"):
        train(undisturbed, world, seed=7)


@pytest.mark.parametrize("task", SET_TASKS)
def test_the_oracle_is_right_through_the_whole_pipeline(tmp_path, world, task):
    record = train(tmp_path, world, small(f"{task}/oracle"))
    assert set(record.metrics["accuracy"].values()) == {1.0}
    assert record.metrics["validation_accuracy"] == 1.0


@pytest.mark.parametrize("row", ["gru", "pna", "max", "sum"])
def test_every_kind_of_aggregator_runs(tmp_path, world, row):
    assert train(tmp_path, world, small(f"second-minimum/{row}")).status == "finished"
