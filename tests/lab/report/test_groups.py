"""Seeds are folded; presets, recipes and unfinished runs never are."""

import dataclasses

import pytest
from lab.report.synthetic import record, save, speed_record, sweep_record

from treefold.lab.report.groups import group_runs, sections
from treefold.lab.report.runs import load_runs


def groups_of(tmp_path, *records):
    for place, made in enumerate(records):
        save(tmp_path / str(place), made)
    return group_runs(load_runs(tmp_path).runs)


def test_seeds_of_one_recipe_are_one_group(tmp_path):
    (group,) = groups_of(tmp_path, *(record("gru", seed) for seed in (2, 0, 1)))
    assert [run.record.seed for run in group.finished] == [0, 1, 2]
    spread = group.metric("accuracy@32")
    assert (spread.mean, spread.low, spread.high) == pytest.approx((0.990, 0.988, 0.992))
    assert spread.deviation == pytest.approx(0.002)
    assert group.accuracy_by_size()[200].mean == pytest.approx(0.880)


def test_presets_and_overrides_are_groups_of_their_own(tmp_path):
    changed = record("gru", 0, overrides={"training.epochs": 5})
    groups = groups_of(tmp_path, changed, record("gru", preset="quick"), record("gru"))
    assert [group.variant for group in groups] == [
        "standard",
        "quick",
        "standard, training.epochs=5",
    ]


def test_a_recipe_that_changed_under_the_same_name_is_told_apart(tmp_path):
    other = record("gru", 1)
    other = dataclasses.replace(other, recipe={**other.recipe, "model": {"channels": 64}})
    first, second = groups_of(tmp_path, record("gru", 0), other)
    assert first.variant != second.variant
    assert {g.variant.partition("recipe")[0] for g in (first, second)} == {"standard, "}


@pytest.mark.parametrize("status", ["running", "stopped", "failed"])
def test_only_finished_runs_count(tmp_path, status):
    bad = record("gru", 1, status=status)
    (group,) = groups_of(tmp_path, record("gru", 0), bad)
    assert group.metric("accuracy@32").mean == pytest.approx(0.988)
    assert [run.record.seed for run in group.unfinished] == [1]


def test_missing_metrics_are_missing_and_not_zero(tmp_path):
    (group,) = groups_of(tmp_path, record(metrics={"accuracy@32": None, "accuracy@200": 0.5}))
    assert group.metric("accuracy@32") is None
    assert group.metric("accuracy@200").mean == 0.5
    assert group.accuracy_by_size() == {}


def test_repetitions_of_a_timing_are_folded_by_size(tmp_path):
    (group,) = groups_of(tmp_path, speed_record("gru", {200: [3.0, 5.0], 20: [1.0]}))
    assert list(group.seconds_by_size()) == [20, 200]
    assert group.seconds_by_size()[200].mean == 4.0


def test_rows_stand_as_in_the_paper_and_sweeps_by_falling_weight(tmp_path):
    rows = [record(row) for row in ("sum", "other", "gru", "pna", "binary-gru")]
    groups = groups_of(tmp_path, *rows, *(sweep_record(power) for power in (3, 0, 7)))
    assert [g.row for g in groups[:5]] == ["gru", "binary-gru", "pna", "sum", "other"]
    assert [g.weight for g in groups[5:]] == pytest.approx([1.0, 1e-3, 1e-7])
    assert [g.anchor for g in groups][:2] == ["records-1", "records-2"]


def test_sections_with_results_come_before_those_without(tmp_path):
    groups = groups_of(tmp_path, record("gru", preset="paper", status="stopped"), record("gru"))
    assert list(sections(groups)) == [("second-minimum", "standard"), ("second-minimum", "paper")]
