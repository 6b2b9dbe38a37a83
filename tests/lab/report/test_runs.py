"""Everything found is used or named with the reason why not."""

import json
import re

import pytest
from lab.report.synthetic import log_rows, record, save

from treefold.lab.report.runs import load_runs


def damage(folder, **changes):
    """A record that is fine but for these entries."""
    path = save(folder, record()) / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES = {
    "an empty name": ({"name": "/"}, "`name` is empty"),
    "an accuracy in words": ({"metrics": {"accuracy@32": "high"}}, "'high' for `accuracy@32`"),
    "accuracies without sizes": ({"metrics": {"accuracy": {"all": 1}}}, "numbers by set size"),
    "sets of nothing": ({"metrics": {"accuracy": {"0": 1}}}, "numbers by set size"),
    "one time for many": (
        {"metrics": {"seconds_per_epoch_by_size": {"20": 3.5}}},
        "3.5 for `20`; expected a list of seconds",
    ),
    "a bare published number": ({"reported": {"accuracy@32": 0.9}}, "expected value and source"),
    "a published text": ({"reported": {"accuracy@32": {"value": "0.9"}}}, "'0.9' for `value`"),
    "entries of the future": ({"colour": "red"}, r"unknown entries \['colour'\]"),
    "another version": ({"version": 99}, "version 99"),
}


@pytest.mark.parametrize(("changes", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_record_is_named_with_its_reason(tmp_path, changes, reason):
    save(tmp_path / "good", record())
    damage(tmp_path / "bad", **changes)
    loaded = load_runs(tmp_path)
    assert [run.place for run in loaded.runs] == ["good"]
    (damaged,) = loaded.damaged
    assert damaged.place == "bad/record.json"
    assert re.search(reason, damaged.reason)


def test_a_torn_record_is_named_without_the_folder_of_whoever_made_the_report(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "record.json").write_text('{"name": ')
    (damaged,) = load_runs(tmp_path).damaged
    assert "record.json is not JSON" in damaged.reason
    assert str(tmp_path) not in damaged.reason


@pytest.mark.parametrize("log", ["step,loss\n1,2\n", "epoch,loss\n1,2,3\n", "epoch\nfirst\n"])
def test_a_damaged_log_costs_the_curves_and_not_the_results(tmp_path, log):
    save(tmp_path / "run", record())
    (tmp_path / "run" / "metrics.csv").write_text(log)
    loaded = load_runs(tmp_path)
    assert [run.log for run in loaded.runs] == [()]
    assert [damaged.place for damaged in loaded.damaged] == ["run/metrics.csv"]


def test_logs_hold_finite_numbers_by_epoch(tmp_path):
    save(tmp_path, record(), log_rows("gru", 2))
    with (tmp_path / "metrics.csv").open("a") as log:
        log.write("3,30,nan,,0.5,inf,0.25,0.125\n2,20,0,0,0,0,0,0.75\n")
    (run,) = load_runs(tmp_path).runs
    assert [row["epoch"] for row in run.log] == [1, 2, 3]
    assert run.log[1]["law:swap"] == 0.75  # of an epoch that was logged twice, the later row
    assert run.log[2].keys() == {
        "epoch",
        "seconds",
        "train_accuracy",
        "validation_accuracy",
        "law:swap",
    }


def test_a_folder_without_runs_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"holds no record.json; train first, .*treefold sweep"):
        load_runs(tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        load_runs(tmp_path / "nowhere")


def test_a_run_whose_aggregator_was_changed_is_a_row_of_that_one(tmp_path):
    save(tmp_path / "a", record("gru", overrides={"aggregator.name": "conjugated-sum"}))
    (run,) = load_runs(tmp_path).runs
    assert run.row == "conjugated-sum"
