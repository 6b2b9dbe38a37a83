"""The multi-task experiments: the paper's rows and numbers, at prices from smoke to paper."""

import dataclasses
import json

import pytest

from treefold.lab.experiments.catalogue import (
    FAMILIES,
    experiment_from_recipe,
    find_experiment,
    find_preset,
)
from treefold.lab.experiments.multitask import ALL_SPLITS, EXTRA_ROWS, PRESETS, REPORTED, TABLE_ROWS
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.recipe import MultiTaskModel

ROWS = ["gcn", "gat", "gin", "mpnn-sum", "mpnn-max", "pna-16", "pna-one-tower", "gru", "binary-gru",
        "binary-gru-assoc"]  # fmt: skip


def rows_at(preset):
    return {row.name.partition("/")[2]: row for row in find_experiment("multi-task", preset)}


def test_the_table_has_the_ten_rows_of_the_paper():
    assert list(rows_at("paper")) == ROWS == list(REPORTED)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("row", [*TABLE_ROWS, *EXTRA_ROWS])
def test_a_recipe_survives_its_record(preset, row):
    (made,) = find_experiment(f"multi-task/{row}", preset)
    stored = json.loads(json.dumps(made.recipe()))
    assert experiment_from_recipe(made.name, stored).recipe() == made.recipe()


@pytest.mark.parametrize("row", ROWS)
def test_the_published_average_is_that_of_the_published_targets(row):
    average, *targets = (entry.value for entry in REPORTED[row].values())
    assert average == pytest.approx(sum(targets) / 6, abs=0.011)


def test_the_paper_preset_is_the_paper():
    rows = rows_at("paper")
    for name in ("gcn", "gat", "gin", "mpnn-sum", "mpnn-max", "pna-16"):
        assert rows[name].model == MultiTaskModel(16, 4, divide=True, readout="set2set")
    for name in ("pna-one-tower", "gru", "binary-gru", "binary-gru-assoc"):
        assert rows[name].model == MultiTaskModel(128, 1, divide=True, readout="set2set")
        assert (rows[name].training.epochs, rows[name].training.learning_rate) == (1000, 1e-4)
    assert (rows["pna-16"].training.epochs, rows["pna-16"].training.learning_rate) == (1000, 1e-3)
    for row in rows.values():
        training = row.training
        assert (training.batch_size, training.weight_decay, training.patience) == (512, 1e-6, 1000)
        assert (training.optimizer, training.schedule, training.shuffle) == (
            *("adam", "constant"),
            False,
        )
        assert row.evaluation.splits == ALL_SPLITS
        assert len(ALL_SPLITS) == 10
        assert row.task.num_train == 5120
    assert rows["gcn"].training.epochs == 10_000


def test_learned_aggregators_are_also_there_in_undivided_towers_and_with_a_learned_readout():
    (narrow,) = find_experiment("multi-task/gru-16", "paper")
    assert narrow.model == MultiTaskModel(16, 4, divide=False)
    assert narrow.training.learning_rate == 1e-3
    (read_out,) = find_experiment("multi-task/binary-gru-readout", "paper")
    assert read_out.model == MultiTaskModel(128, 1, readout="binary-gru")
    assert read_out.reported == narrow.reported == {}


def test_rows_with_a_wide_tower_learn_at_a_lower_rate_in_our_presets_too():
    for preset in ("smoke", "quick", "standard"):
        rows = rows_at(preset)
        wide = {name for name, row in rows.items() if row.model.towers == 1}
        assert wide == {"pna-one-tower", "gru", "binary-gru", "binary-gru-assoc"}
        rates = {name: row.training.learning_rate for name, row in rows.items()}
        assert max(rates[name] for name in wide) < min(rates[name] for name in rates.keys() - wide)
        (copying,) = find_experiment("multi-task/gated-selection", preset)
        assert copying.training.learning_rate == rates["binary-gru"]


def test_departures_from_the_paper_are_named_even_at_its_own_preset():
    rows = rows_at("paper")
    assert all("15 to 19 nodes" in row.departures[0] for row in rows.values())
    assert any("attention" in sentence for sentence in rows["gat"].departures)
    assert any("(receiver, source)" in sentence for sentence in rows["pna-16"].departures)
    assert not any("the paper has" in s for row in rows.values() for s in row.departures)
    quick = rows_at("quick")["gru"].departures
    assert "model.channels is 32; the paper has 128" in quick
    assert "training.shuffle is True; the paper has False" in quick
    assert "training.patience is None; the paper has 1000" in quick


def test_departures_follow_what_is_overridden():
    (row,) = find_experiment("multi-task/binary-gru-assoc", "quick")
    assert any("its associativity loss; here it is 0.01" in note for note in row.departures)
    changed, _ = override(
        row, ["task.variant=corrected", "task.num_extrapolation=320", "model.channels=128"]
    )
    assert changed.reported == row.reported
    assert "15 to 24 nodes, and `connected` means connected" in changed.departures[0]
    assert "task.num_extrapolation is 320; the paper has 1280" in changed.departures
    assert not any("model.channels" in note for note in changed.departures)


def test_one_catalogue_knows_sets_and_graphs():
    assert list(FAMILIES) == ["sets", "finite states", "graphs", "real graphs", "your graphs"]
    assert find_experiment("second-minimum/gru", "quick")[0].model.channels == 128
    assert find_preset("multi-task/gru", "standard").num_seeds == 3
    for name, preset, message in (
        ("multi-tsak", "quick", "did you mean multi-task"),
        ("multi-task/pna-61", "quick", "did you mean pna-16"),
        ("multi-task", "quik", "did you mean quick"),
    ):
        with pytest.raises(ValueError, match=message):
            find_experiment(name, preset)


def test_parts_of_graph_recipes_are_overridden_by_their_own_types():
    (row,) = find_experiment("multi-task/binary-gru-16", "smoke")
    changed, _ = override(
        row,
        ["model.divide=true", "evaluation.splits=test,extrapolation-95-99", "task.num_train=20",
         "training.shuffle=false"],
    )  # fmt: skip
    assert changed.model == dataclasses.replace(row.model, divide=True)
    assert changed.evaluation.splits == ("test", "extrapolation-95-99")
    with pytest.raises(ValueError, match="num_train is 7; expected a multiple of 10"):
        override(row, ["task.num_train=7"])
