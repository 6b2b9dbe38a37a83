"""Recipes are data: complete, comparable with the paper, and overridden by typed keys."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from treefold.aggr import aggregator
from treefold.aggr.sampling import Sampling
from treefold.lab.experiments.catalogue import (
    experiment_from_recipe,
    find_experiment,
    runner_of,
)
from treefold.lab.experiments.loading import experiment_of
from treefold.lab.experiments.overrides import keys_of, override
from treefold.lab.experiments.recipe import AggregatorChoice, Training
from treefold.lab.experiments.set_runner import Balanced, parse_cases, summary
from treefold.lab.experiments.sets import EXPERIMENTS, LAMBDAS, PRESETS, REPORTED
from treefold.lab.runs import Record, as_json, find_runs
from treefold.lab.tasks import SET_TASKS

ONE = "second-minimum/binary-gru"
RESULTS = Path(__file__).parents[3] / "results"


def every_row():
    return [
        (name, preset, row)
        for name in EXPERIMENTS
        for preset in PRESETS
        for row in find_experiment(name, preset)
    ]


@pytest.mark.parametrize(
    ("name", "preset", "row"), every_row(), ids=lambda value: getattr(value, "name", str(value))
)
def test_a_recipe_survives_its_record(name, preset, row):
    stored = json.loads(json.dumps(row.recipe()))
    assert experiment_from_recipe(row.name, stored).recipe() == row.recipe()


def test_a_recipe_of_an_old_record_is_the_same_recipe():
    (row,) = find_experiment(ONE, "quick")
    assert "patience" not in row.recipe()["training"]
    patient, _ = override(row, ["training.patience=5"])
    assert patient.recipe()["training"]["patience"] == 5
    stored = json.loads(json.dumps(patient.recipe()))
    assert experiment_from_recipe(ONE, stored).training.patience == 5


def test_every_record_that_we_keep_has_a_recipe_of_today():
    records = [Record.read(folder) for folder in find_runs(RESULTS)]
    assert {"second-minimum/sum", "set-speed/sum"} <= {record.name for record in records}
    for record in records:
        assert as_json(experiment_of(record).recipe()) == record.recipe


def test_the_paper_preset_is_the_paper():
    for row in find_experiment("second-minimum", "paper"):
        assert row.training == Training(epochs=1000, batch_size=32, learning_rate=1e-4)
        assert row.model.channels == 128
        assert row.evaluation.sizes == tuple(range(1, 201))
        assert row.departures == ()
        assert row.reported == REPORTED[row.name.partition("/")[2]]


def test_departures_from_the_paper_are_named_one_by_one():
    departures = find_experiment(ONE, "quick")[0].departures
    assert "training.epochs is 20; the paper has 1000" in departures
    assert any("bracketing" in sentence for sentence in departures)


def test_the_sweep_has_every_lambda_of_the_paper():
    rows = find_experiment("second-minimum-lambda", "standard")
    assert [row.aggregator.options["associativity"] for row in rows] == list(LAMBDAS)
    assert pytest.approx([1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7]) == LAMBDAS
    assert len({row.name for row in rows}) == 8


def test_the_sweep_names_its_departures_and_what_its_lambda_is():
    for row in find_experiment("second-minimum-lambda", "standard"):
        assert "training.epochs is 60; the paper has 1000" in row.departures
        assert any("1/128 of that weight there" in sentence for sentence in row.departures)
        assert row.reported == {}
    at_paper = find_experiment("second-minimum-lambda", "paper")
    assert {row.departures for row in at_paper} == {()}
    (narrow,) = find_experiment("second-minimum/binary-gru-assoc", "smoke")
    assert any("mean over 16 channels" in sentence for sentence in narrow.departures)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_associativity_loss_at_the_paper_s_scale_departs_in_training_alone(preset):
    rows = find_experiment("second-minimum-associativity", preset)
    assert [row.aggregator for row in rows] == [
        AggregatorChoice("binary-gru"),
        *(AggregatorChoice("binary-gru-assoc", {"associativity": 10.0**-n}) for n in (0, 2, 4)),
    ]
    for row in rows:
        assert not any("aggregator" in departure for departure in row.departures)
        lcm = aggregator(row.aggregator.name, 4, **row.aggregator.options)
        assert (lcm.bracketing, lcm.sampling) == ("balanced", Sampling(None, "sum"))
    assert [bool(row.reported) for row in rows] == [True, True, False, False]


def test_ablations_differ_in_their_aggregator_alone_and_can_be_built():
    whole = find_experiment("second-minimum/gated-selection", "smoke")[0]
    rows = find_experiment("generalisation", "smoke")
    for row in rows:
        same = replace(row, name=whole.name, aggregator=whole.aggregator)
        assert same == replace(whole, reported=row.reported, departures=row.departures)
        choice = row.aggregator
        aggregator(choice.name, 4, **choice.options)
    choices = [row.aggregator for row in (whole, *rows)]
    assert all(choices.count(choice) == 1 for choice in choices)


@pytest.mark.parametrize("task", SET_TASKS)
def test_rows_beyond_the_paper_s_table_are_there_by_name(task):
    row = find_experiment(f"{task}/gated-selection-general", "quick")[0]
    assert (row.task, row.reported) == (SET_TASKS[task](**PRESETS["quick"].task), {})
    assert "gated-selection" not in [
        each.aggregator.name for each in find_experiment(task, "quick")
    ]


def test_every_name_of_the_paper_s_table_is_there():
    rows = [row.name.partition("/")[2] for row in find_experiment("second-minimum", "quick")]
    assert sorted(rows) == sorted(["gru", "binary-gru-assoc", "binary-gru", "pna", "max", "sum"])


@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        ("training.epochs=5", lambda row: row.training.epochs == 5),
        ("training.learning_rate=3e-4", lambda row: row.training.learning_rate == 3e-4),
        ("training.clip_norm=none", lambda row: row.training.clip_norm is None),
        ("training.schedule=cosine", lambda row: row.training.schedule == "cosine"),
        ("task.saturate=false", lambda row: row.task.saturate is False),
        ("task.k=3", lambda row: row.task.k == 3),
        ("evaluation.sizes=1,2,4", lambda row: row.evaluation.sizes == (1, 2, 4)),
        ("evaluation.sizes=[1, 2, 4]", lambda row: row.evaluation.sizes == (1, 2, 4)),
        ("evaluation.balanced_sizes=[]", lambda row: row.evaluation.balanced_sizes == ()),
        ("model.channels=16", lambda row: row.model.channels == 16),
        ("aggregator.options.associativity=0.5",
         lambda row: row.aggregator.options["associativity"] == 0.5),
        ("aggregator.options.bracketing=carry",
         lambda row: row.aggregator.options["bracketing"] == "carry"),
    ],
)  # fmt: skip
def test_an_override_is_typed_by_the_recipe(assignment, read):
    changed, made = override(find_experiment(ONE, "smoke")[0], [assignment])
    assert read(changed)
    assert list(made) == [assignment.partition("=")[0]]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.epoch=5", "unknown key 'training.epoch'; did you mean training.epochs"),
        ("trainig.epochs=5", "did you mean training.epochs"),
        ("training.epochs=five", "training.epochs is 'five'; expected int"),
        ("training.epochs", "is no assignment; expected key=value"),
        ("training.patience=0", "training.patience is 0; expected a number more than 0"),
        ("training.epochs=0", "training.epochs is 0; expected a number more than 0"),
        ("training.seconds=0", "training.seconds is 0.0; expected a number more than 0"),
        ("training.epochs=none", "has neither epochs nor seconds; give one of them"),
        ("training.optimizer=adma", "unknown optimizer 'adma'; did you mean adam"),
        ("task.saturate=perhaps", "expected bool"),
        ("training.clip_norm=-1", "training.clip_norm is -1.0; expected a number more than 0"),
        ("training.clip_norm=0", "training.clip_norm is 0.0; expected a number more than 0"),
        ("model.channels=0", "model.channels is 0; expected a number more than 0"),
        ("evaluation.sizes=0,3", "evaluation.sizes has 0; expected sizes from 1 up"),
        (
            "evaluation.elements_per_batch=0",
            "elements_per_batch is 0; expected a number more",
        ),
        ("task.num_evaluation=0", "num_evaluation is 0; expected 1 or more"),
        ("evaluation.sizes=few", "evaluation.sizes is 'few'; expected ints with commas between"),
    ],
)
def test_a_wrong_override_says_what_would_be_right(assignment, message):
    with pytest.raises(ValueError, match=message):
        override(find_experiment(ONE, "smoke")[0], [assignment])


def test_what_is_overridden_is_a_departure_and_another_question_has_no_published_answer():
    (row,) = find_experiment("second-minimum/binary-gru", "paper")
    assert row.departures == ()
    changed, _ = override(row, ["training.epochs=5"])
    assert changed.departures == ("training.epochs is 5; the paper has 1000",)
    assert changed.reported == row.reported != {}
    third, _ = override(row, ["task.k=3"])
    assert third.departures == ("task.k is 3; the paper has 2",)
    assert third.reported == {}


def test_unknown_names_suggest_near_ones():
    with pytest.raises(ValueError, match="did you mean second-minimum"):
        find_experiment("second-minimun", "quick")
    with pytest.raises(ValueError, match="did you mean binary-gru"):
        find_experiment("second-minimum/binary-gur", "quick")
    with pytest.raises(ValueError, match="did you mean quick"):
        find_experiment("second-minimum", "quik")


def test_all_parts_of_a_recipe_can_be_overridden():
    parts = {key.partition(".")[0] for key in keys_of(find_experiment(ONE, "smoke")[0])}
    assert parts == {"task", "aggregator", "model", "training", "evaluation"}


def test_sizes_are_asked_for_in_words():
    assert parse_cases("1-3,32") == (1, 2, 3, 32)
    assert parse_cases("balanced:16,200") == (Balanced(16), Balanced(200))
    mixed = (200, 1000, Balanced(16), Balanced(17), Balanced(1000))
    assert parse_cases("200,1000,balanced:16-17,1000") == mixed
    wrong_ones = ("even:3", "balanced:", "balanced:0", "3:4", "x", ",balanced:3", "200balanced:3")
    for wrong in (*wrong_ones, "200,,balanced:3", "balanced:3,balanced:4", "200,balanced:"):
        with pytest.raises(ValueError, match="expected"):
            parse_cases(wrong)


def test_balanced_sets_are_scored_next_to_uniform_ones():
    experiment = override(
        find_experiment("second-minimum/oracle", "smoke")[0],
        ["evaluation.sizes=1,32", "evaluation.balanced_sizes=16,200"],
    )[0]
    runner = runner_of(experiment, 0)
    scores = {
        case: runner.score(runner.model(), case, torch.device("cpu")) for case in runner.cases()
    }
    metrics = runner.metrics(scores)
    assert metrics["balanced_accuracy"] == {"16": 1.0, "200": 1.0}
    assert metrics["accuracy@balanced-200"] == metrics["accuracy@32"] == 1.0
    assert runner.shown(Balanced(16), 1.0) == {"size": "balanced 16", "accuracy": 1.0}


def test_the_mean_over_training_sizes_is_that_of_all_of_them_or_none():
    every = {size: 1.0 / size for size in (1, 2, 3, 4, 32)}
    assert summary(every, 4) == {"accuracy@1-4": pytest.approx(25 / 48), "accuracy@32": 1 / 32}
    assert summary({1: 1.0, 3: 0.5, 200: 0.25}, 4) == {"accuracy@200": 0.25}


@pytest.mark.parametrize("name", ["conjugated-sum", "lstm", "gated-selection", "oracle"])
def test_any_aggregator_is_a_row_of_a_set_task(name):
    (row,) = find_experiment(f"parity/{name}", "smoke")
    assert (row.name, row.aggregator.name, row.reported) == (f"parity/{name}", name, {})


def test_a_misspelt_row_gets_suggestions_from_all_that_there_are():
    with pytest.raises(ValueError, match="did you mean conjugated-sum"):
        find_experiment("second-minimum/conjugatd-sum", "smoke")
    with pytest.raises(ValueError, match="unknown row of generalisation 'sum'"):
        find_experiment("generalisation/sum", "smoke")


def test_another_aggregator_has_no_published_numbers():
    row = find_experiment("second-minimum/binary-gru", "smoke")[0]
    assert row.reported
    changed, _ = override(row, ["aggregator.name=conjugated-sum"])
    assert changed.reported == {}


def test_a_budget_of_seconds_needs_a_schedule_without_an_end():
    (row,) = find_experiment(ONE, "smoke")
    with pytest.raises(ValueError, match=r"annealing needs training\.epochs; without them"):
        replace(row.training, epochs=None, seconds=60.0)
    timed = replace(row.training, epochs=None, seconds=60.0, schedule="constant")
    assert (timed.epochs, timed.seconds) == (None, 60.0)
