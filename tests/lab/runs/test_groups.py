"""Records are read with their logs and put together over seeds; what is damaged is named."""

import json

import pytest
from lab.report.synthetic import log_rows, record, save

from treefold.lab.runs.groups import Group, Run, Stat, load_groups, stat


def test_numbers_are_means_with_the_deviation_of_several_runs():
    assert stat([1.0, None, 3.0, float("nan"), "x", True]) == Stat(2.0, 1.0, 3.0, 2.0**0.5)
    assert stat([5]) == Stat(5.0, 5.0, 5.0, None)
    assert stat([]) is None
    assert Stat(-2.984, -3.0, -2.9, 0.021).text(2) == "−2.98 ± 0.02"


def test_seeds_of_one_recipe_are_one_group_and_other_recipes_are_not(tmp_path):
    for seed in range(3):
        save(tmp_path / str(seed), record("gru", seed))
    longer = {"training.epochs": 90}
    save(tmp_path / "longer", record("gru", 0, overrides=longer))
    plain, changed = load_groups(tmp_path)[0]
    assert [run.record.seed for run in plain.finished] == [0, 1, 2]
    assert plain.metric("accuracy@200") == stat([0.878, 0.88, 0.882])
    assert plain.reported("accuracy@200") == Stat(
        0.912, pytest.approx(0.907), pytest.approx(0.917), 0.005, "tab:2min_1k_baselines"
    )
    assert (plain.variant, changed.variant) == ("standard", "standard, training.epochs=90")


def test_an_overridden_aggregator_is_a_row_of_that_aggregator(tmp_path):
    save(tmp_path / "a", record("gru", overrides={"aggregator.name": "max"}))
    (group,) = load_groups(tmp_path)[0]
    assert (group.row, group.variant) == ("max", "standard")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "second-minimum/gru", ', "is not JSON"),
        ("[]", "has version None"),
        (json.dumps({"version": 1, "name": "a/b"}), "lacks"),
    ],
)
def test_a_damaged_record_costs_that_run_alone(tmp_path, text, words):
    save(tmp_path / "good", record("gru"))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "record.json").write_text(text)
    groups, (damaged,) = load_groups(tmp_path)
    assert len(groups) == 1
    assert damaged.startswith("bad: ")
    assert words in damaged


def test_a_record_with_an_entry_of_another_kind_is_named(tmp_path):
    path = save(tmp_path / "a", record("gru")) / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "metrics": [1]}))
    groups, (damaged,) = load_groups(tmp_path)
    assert groups == []
    assert "metrics" in damaged


def test_a_damaged_log_costs_its_curves_alone(tmp_path):
    folder = save(tmp_path / "a", record("gru"), log_rows("gru", 5))
    (folder / "metrics.csv").write_text("epoch,loss\n1\n")
    (group,), (damaged,) = load_groups(tmp_path)
    assert "metrics.csv has 1 cells in line 2" in damaged
    assert group.metric("accuracy@32")
    assert group.logged("train_loss") == {}


def test_a_folder_without_records_says_how_to_make_some(tmp_path):
    with pytest.raises(ValueError, match="train first, for example"):
        load_groups(tmp_path)
    with pytest.raises(ValueError, match="give the folder that holds the runs"):
        load_groups(tmp_path / "nowhere")


def run_with(**changes):
    return Run(None, record("gru", **changes))


def test_a_machine_is_told_with_its_threads_and_if_it_was_busy():
    hardware = {"cpu": "A Processor", "cores": 2, "accelerators": []}
    assert run_with(hardware=hardware).machine == "A Processor, 2 cores"
    busy = run_with(hardware={**hardware, "load": 5.0}, machine={"threads": 1})
    assert busy.machine == "A Processor, 2 cores, 1 threads, busy"
    assert run_with(hardware={}).machine == "a machine that is not recorded"


def test_entries_by_size_are_put_together_over_seeds_and_repetitions():
    found = [{"20": [1.0, 3.0], "100": [5.0], "x": 7}, {"20": 2.0}]
    runs = [run_with(metrics={"by": each}) for each in found]
    assert Group(runs).by_size("by") == {20: Stat(2.0, 1.0, 3.0, 1.0), 100: Stat(5.0, 5.0, 5.0)}
