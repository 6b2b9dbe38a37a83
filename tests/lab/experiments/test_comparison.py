"""A comparison: equal budgets, records that can be trusted, and nothing done twice."""

import dataclasses
import shutil
import signal
from pathlib import Path

import pytest
import torch
from lab.experiments.graph_sets import graph_classes, graph_numbers, one_graph
from lab.experiments.made_up import run, save

from treefold.checkpoints import CheckpointStore
from treefold.lab.cli.commands import evaluate_run, print_laws, resume_run
from treefold.lab.cli.options import Machine
from treefold.lab.experiments import (
    Budget,
    Listener,
    Plan,
    SmallModel,
    Watcher,
    YourGraphsRunner,
    compare,
    load_model,
)
from treefold.lab.report import write_comparison
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.signals import Stopped
from treefold.lab.runs.world import World
from treefold.lab.tasks import YourGraphs, collect, dataset_of, load_dataset

DATA = dataset_of("mine", collect(graph_classes()))
PLAN = Plan(("max", "gru"), 2, Budget(epochs=2, batch_size=16), SmallModel(8, 1))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREEFOLD_DATA", raising=False)


@pytest.fixture(scope="module")
def world():
    return World("cpu")


@pytest.fixture(scope="module")
def done(tmp_path_factory, world):
    out = tmp_path_factory.mktemp("compared")
    ended = []

    def ends(experiment, seed, record):
        ended.append((experiment.aggregator.name, seed))

    listener = Listener(ends=ends)
    return out, compare(DATA, PLAN, out, world, listener), ended


def test_every_pair_is_run_first_seeds_first(done):
    out, compared, ended = done
    assert ended == [("max", 0), ("gru", 0), ("max", 1), ("gru", 1)]
    assert (compared.num_runs, compared.num_skipped, compared.failed) == (4, 0, ())
    for name, seed in ended:
        record = Record.read(out / name / f"seed-{seed}")
        assert record.status == "finished"
        assert record.name == f"mine/{name}"
        assert record.epochs == 2
        assert {"accuracy@train", "accuracy@val", "accuracy@test"} <= record.metrics.keys()
        assert record.metrics["step_memory"] > 10_000
        assert ("law:swap" in record.metrics) == (name == "gru")
        assert record.recipe["task"]["facts"]["digest"] == DATA.digest
        rows = MetricsLog.read(out / name / f"seed-{seed}")
        best = max(row["validation_accuracy"] for row in rows)
        assert record.metrics["accuracy@val"] == pytest.approx(best)


def test_what_is_done_is_skipped_and_more_can_be_asked_for(done, world):
    out, _, _ = done
    before = (out / "max" / "seed-0" / "record.json").read_bytes()
    compared = compare(DATA, PLAN, out, world)
    assert (compared.num_runs, compared.num_skipped) == (4, 4)
    more = dataclasses.replace(PLAN, aggregators=("max", "gru", "sum"), num_seeds=1)
    assert compare(DATA, more, out, world).num_skipped == 2
    assert (out / "max" / "seed-0" / "record.json").read_bytes() == before


def test_another_recipe_in_the_folder_is_found_before_any_work(done, world):
    out, _, _ = done
    longer = dataclasses.replace(PLAN, budget=Budget(epochs=3, batch_size=16))
    message = "a run with another training; give another --out, or remove that folder$"
    with pytest.raises(ValueError, match=message):
        compare(DATA, longer, out, world)
    wider = dataclasses.replace(PLAN, model=SmallModel(16, 1))
    changed = dataset_of("mine", collect(graph_numbers()))
    with pytest.raises(ValueError, match="a run with another dataset and model"):
        compare(changed, wider, out, world)
    message = r"dataset\(\) must give the same data each time: seed what it draws$"
    with pytest.raises(ValueError, match=message):
        compare(changed, PLAN, out, world)


def test_a_seed_gives_the_same_scores_again(done, tmp_path, world):
    out, _, _ = done
    compare(DATA, dataclasses.replace(PLAN, num_seeds=1), tmp_path, world)
    for name in PLAN.aggregators:
        again, first = (Record.read(folder / name / "seed-0") for folder in (tmp_path, out))
        for metric in ("accuracy@train", "accuracy@val", "accuracy@test", "best_epoch"):
            assert again.metrics[metric] == first.metrics[metric]


@pytest.mark.parametrize(
    ("graphs", "metric"), [([one_graph()], "accuracy"), (graph_numbers(), "mae")]
)
def test_nodes_and_numbers_can_be_learned(graphs, metric, tmp_path, world):
    data = dataset_of("mine", collect(graphs))
    plan = Plan(("sum",), 1, Budget(epochs=40, learning_rate=0.01), SmallModel(16, 1))
    compare(data, plan, tmp_path, world)
    found = Record.read(tmp_path / "sum" / "seed-0").metrics
    if metric == "accuracy":
        assert found["accuracy@train"] > 0.9
        assert found["accuracy@test"] > found["constant_accuracy"]
    else:
        assert found["mae@test"] < 0.5 * found["constant_mae"]


def test_a_budget_of_seconds_is_spent_and_hardly_more(tmp_path, world):
    plan = Plan(("max", "gru"), 1, Budget(None, 0.1, batch_size=4), SmallModel(8, 1))
    compare(DATA, plan, tmp_path, world)
    for name in ("max", "gru"):
        folder = tmp_path / name / "seed-0"
        record, rows = Record.read(folder), MetricsLog.read(folder)
        assert record.preset == "0.1 seconds"
        assert [row["seconds"] >= 0.1 for row in rows] == [False] * (len(rows) - 1) + [True]
        epochs = record.seconds / record.metrics["seconds_per_epoch"]
        assert record.epochs == len(rows)
        assert epochs == pytest.approx(record.epochs, abs=1)
    assert compare(DATA, plan, tmp_path, world).num_skipped == 2


def test_a_run_whose_numbers_explode_is_recorded_and_the_others_are_made(tmp_path, world):
    graphs = graph_numbers()
    for graph in graphs:
        graph.x = graph.x.clone()
    data = dataset_of("mine", collect(graphs))
    data.train.store.x.fill_(float("inf"))  # as if training had gone wrong
    compared = compare(data, dataclasses.replace(PLAN, num_seeds=1), tmp_path, world)
    assert compared.failed == ("max with seed 0", "gru with seed 0")
    record = Record.read(tmp_path / "max" / "seed-0")
    assert record.status == "failed"
    assert "the loss is nan" in record.error


def test_a_stopped_run_is_resumed_with_the_numbers_of_one_that_was_not(done, tmp_path, world):
    plan = dataclasses.replace(PLAN, num_seeds=1)

    def stop(progress, steps):
        if (progress.epoch, progress.step) == (2, 1):
            signal.raise_signal(signal.SIGINT)

    listener = Listener(begins=lambda experiment, seed: Watcher(step=stop))
    with pytest.raises(Stopped, match="SIGINT at epoch 2, step 1; `treefold resume "):
        compare(DATA, plan, tmp_path, world, listener)
    assert Record.read(tmp_path / "max" / "seed-0").status == "stopped"
    assert compare(DATA, plan, tmp_path, world).num_skipped == 0
    for name in plan.aggregators:
        folders = [place / name / "seed-0" for place in (tmp_path, done[0])]
        again, whole = (
            CheckpointStore(folder / "checkpoints", "last").load().tensors for folder in folders
        )
        assert all(torch.equal(again[key], whole[key]) for key in whole)
        logs = [list(map(_untimed, MetricsLog.read(folder))) for folder in folders]
        assert logs[0] == logs[1]


def _untimed(row):
    return {name: value for name, value in row.items() if name != "seconds"}


GRAPHS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from lab.experiments.graph_sets import graph_classes
def dataset():
    return graph_classes(40)
"""


@pytest.fixture(scope="module")
def from_file(tmp_path_factory, world):
    """A comparison on the graphs of a file: the file, and the folder of a run."""
    folder = tmp_path_factory.mktemp("named")
    file = folder / "mine.py"
    file.write_text(GRAPHS)
    plan = Plan(("gru",), 1, Budget(epochs=2, batch_size=16), SmallModel(8, 2))
    compare(load_dataset(str(file)), plan, folder / "out", world)
    return file, folder / "out" / "gru" / "seed-0"


def test_a_run_is_scored_from_its_folder_alone(from_file, capsys):
    _, folder = from_file
    evaluate_run(folder, None, None, Machine())
    printed = capsys.readouterr().out.split()
    found = Record.read(folder).metrics
    for split in ("train", "val", "test"):
        name = f"accuracy@{split}"
        assert printed[printed.index(name) + 1] == f"{found[name]:.4f}"
    assert load_model(folder).layers[1].aggregator.out_channels == 8


def test_the_laws_of_a_run_are_reported_for_each_layer(from_file, capsys):
    print_laws(from_file[1], num_draws=16)
    printed = capsys.readouterr().out
    assert "layer 1" in printed
    assert "layer 2" in printed
    assert printed.count("swap") >= 2


def test_a_run_is_resumed_for_longer_from_its_folder_alone(from_file, tmp_path):
    longer = shutil.copytree(from_file[1], tmp_path / "run")
    resume_run(longer, Machine(threads=1), epochs=3)
    record = Record.read(longer)
    assert (record.status, record.epochs, record.recipe["training"]["epochs"]) == ("finished", 3, 3)
    assert MetricsLog.read(longer)[:2] == MetricsLog.read(from_file[1])


def test_a_file_that_has_changed_is_not_run(from_file):
    file, folder = from_file
    assert Record.read(folder).recipe["task"]["dataset"] == str(file)
    file.write_text(GRAPHS + "raise RuntimeError('this must not be run')\n")
    try:
        with pytest.raises(ValueError, match=r"mine\.py is not the file that this run was"):
            evaluate_run(folder, None, None, Machine())
    finally:
        file.write_text(GRAPHS)


def test_graphs_that_were_given_in_memory_cannot_be_read_again(done):
    with pytest.raises(ValueError, match="the graphs of mine were given in memory"):
        evaluate_run(done[0] / "max" / "seed-0", None, None, Machine())


def test_folders_of_an_earlier_treefold_have_a_page_but_are_not_resumed(tmp_path, world):
    save(tmp_path, [run("max", 0, 0.8, 1.0), run("gru", 0, 0.9, 2.0)])
    assert "GRU" in write_comparison(tmp_path).read_text()
    with pytest.raises(ValueError, match="holds a run of an earlier treefold, without checkpoints"):
        compare(DATA, PLAN, tmp_path, world)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan(("sum", "binary-gur")), "did you mean binary-gru"),
        (lambda: Plan(("sum", "sum")), "named twice"),
        (lambda: Plan(()), "no aggregators"),
        (lambda: Plan(num_seeds=0), "0 seeds"),
        (lambda: Budget(epochs=0), "epochs is 0"),
        (lambda: Budget(None, -1.0), "training.seconds is -1.0"),
        (lambda: Budget(3, 1.0), "either epochs or seconds"),
        (lambda: Budget(learning_rate=0.0), "learning_rate is 0.0"),
        (lambda: SmallModel(0, 1), "channels is 0"),
    ],
)
def test_wrong_plans_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_memory_step_leaves_the_network_as_it_was(world):
    experiment = PLAN.experiment("gru", YourGraphs.of(DATA))
    runner = YourGraphsRunner(experiment, 0, DATA)
    model = runner.model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    runner.warm_up(model, world)
    assert runner.step_memory > 0
    assert all(map(torch.equal, before, model.parameters()))
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_torn_record_is_set_aside_and_its_run_made_again(done, tmp_path, world, caplog):
    shutil.copytree(done[0], tmp_path, dirs_exist_ok=True)
    folder = min(tmp_path.rglob("record.json")).parent
    (folder / "record.json").write_text('{"name": "torn')
    found = compare(DATA, PLAN, tmp_path, world)
    assert found.num_skipped == found.num_runs - 1
    assert "it is now called record.json.damaged" in caplog.text
    assert Record.read(folder).status == "finished"
