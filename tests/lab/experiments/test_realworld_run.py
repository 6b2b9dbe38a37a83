"""Runs on real graphs, on the few that tests ship: complete records, whatever stops them."""

import math
from pathlib import Path

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from treefold.checkpoints import CheckpointStore
from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.loading import best_model
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.running import run
from treefold.lab.experiments.trainer import Trainer, Watcher
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.answer_scores import score_answers
from treefold.lab.runs.state import restore
from treefold.lab.tasks import MissingData, average_log_degree, differences_from_official
from treefold.lab.tasks.realworld.tasks import GRAPH_TASKS

FEW = Path(__file__).parents[2] / "data" / "realworld"
SMALL = ["training.epochs=2", "training.batch_size=2", "model.channels=4", "model.num_layers=2"]
PLATEAU = [
    "training.epochs=6",
    "training.schedule=plateau",
    "training.plateau_patience=0",
    "training.learning_rate=0.5",
    "model.dropout=0.3",
]


@pytest.fixture(scope="module", autouse=True)
def _few_graphs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TREEFOLD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setenv("TREEFOLD_DATA", str(FEW))
        yield


def small(name, *more):
    (found,) = find_experiment(name, "smoke")
    width = [] if name.startswith("molhiv") else ["model.out_channels=4", "model.towers=2"]
    return override(found, [*SMALL, *width, *more])[0]


def train(folder, world, experiment, **options):
    return run(experiment, preset="smoke", seed=1, folder=folder, world=world, **options)


@pytest.fixture(scope="module")
def paced(tmp_path_factory, world):
    """A run whose learning rate is cut at every epoch that brings nothing."""
    folder = tmp_path_factory.mktemp("run")
    train(folder, world, small("zinc-edges/binary-gru", *PLATEAU))
    return folder


def column(folder, name):
    return [row[name] for row in MetricsLog.read(folder)]


def test_the_learning_rate_is_halved_when_validation_does_not_improve(paced):
    rates, losses = column(paced, "learning_rate"), column(paced, "validation_loss")
    expected, rate, best = [], 0.5, math.inf
    for loss in losses:
        expected.append(rate)
        if loss < best * (1 - 1e-4):
            best = loss
        else:
            rate /= 2
    assert rates == pytest.approx(expected)
    assert len(set(rates)) > 2


@pytest.mark.parametrize("place", [(5, 1)])
def test_a_crash_changes_no_number_not_even_of_the_plateau(tmp_path, world, paced, place):
    class Crash(BaseException):
        pass

    def crash(progress, steps):
        if (progress.epoch, progress.step) == place:
            raise Crash

    experiment = small("zinc-edges/binary-gru", *PLATEAU)
    with pytest.raises(Crash):
        train(tmp_path, world, experiment, watcher=Watcher(step=crash))
    train(tmp_path, world, experiment)
    for name in ("learning_rate", "train_loss", "validation_mae", "law:associativity"):
        assert column(tmp_path, name) == column(paced, name)
    for metric in ("mae@test", "mae@test-last", "best_epoch"):
        assert Record.read(tmp_path).metrics[metric] == Record.read(paced).metrics[metric]
    of_both = [CheckpointStore(f / "checkpoints", "last").load() for f in (tmp_path, paced)]
    assert of_both[0].state["schedule"] == of_both[1].state["schedule"]
    for name, tensor in of_both[1].tensors.items():
        assert torch.equal(of_both[0].tensors[name], tensor), name


def test_a_run_stops_below_the_minimal_learning_rate(tmp_path, world, paced):
    rates = column(paced, "learning_rate")
    limit = sorted(set(rates))[1]  # it is allowed itself: below means below
    experiment = small("zinc-edges/binary-gru", *PLATEAU, f"training.min_learning_rate={limit}")
    record = train(tmp_path, world, experiment)
    assert record.epochs == sum(rate >= limit for rate in rates) < len(rates)
    assert column(tmp_path, "learning_rate") == rates[: record.epochs]
    assert train(tmp_path, world, experiment).metrics == record.metrics


def test_the_best_and_the_last_epoch_are_both_scored(paced):
    record = Record.read(paced)
    metrics, log = record.metrics, column(paced, "validation_mae")
    assert metrics["validation_mae"] == min(log)
    assert metrics["best_epoch"] == 1 + log.index(min(log))
    assert metrics["num_graphs"] == {"train": 3, "val": 3, "test": 2}
    experiment = small("zinc-edges/binary-gru", *PLATEAU)
    runner, last = runner_of(experiment, 1), runner_of(experiment, 1).model().eval()
    restore(CheckpointStore(paced / "checkpoints", "last").load(), model=last)
    test = runner.task.split("test").take(torch.arange(2))
    best = best_model(paced, runner)
    for model, name in ((best, "mae@test"), (last, "mae@test-last")):
        with torch.no_grad():
            said = model(test.x, test.edge_index, test.edge_attr, test.groups.index)
        assert metrics[name] == pytest.approx(float((said[:, 0] - test.y).abs().mean()), rel=1e-5)


@pytest.mark.parametrize("name", ["molhiv/pna", "molhiv/binary-gru", "cifar10/gru", "mnist/pna-ns",
                                  "mnist-edges/binary-gru-assoc", "zinc/mpnn-sum",
                                  "cifar10-edges/mpnn-max"])  # fmt: skip
def test_every_kind_of_row_runs(tmp_path, world, name):
    record = train(tmp_path, world, small(name, "training.epochs=1"))
    measure = {"mo": "roc-auc", "zi": "mae"}.get(name[:2], "accuracy")
    assert record.status == "finished"
    found, last = (record.metrics[f"{measure}@test{which}"] for which in ("", "-last"))
    # The two molecules that stand for MolHIV's test are of one class.
    assert math.isnan(found) if measure == "roc-auc" else found >= 0
    assert found == pytest.approx(last, nan_ok=True)
    assert any("official release" in sentence for sentence in record.departures)
    row = MetricsLog.read(tmp_path)[0]
    assert math.isfinite(row["validation_loss"])
    assert ("train_accuracy" in row) == (measure == "accuracy")


def test_a_plateau_looks_at_losses_on_molhiv_at_the_area():
    pace = {
        name: (runner.paced_by, runner.pace_highest, runner.chosen_by)
        for name in ("zinc", "mnist", "molhiv")
        if (runner := runner_of(small(f"{name}/pna"), seed=0))
    }
    assert pace == {
        "zinc": ("validation_loss", False, "validation_mae"),
        "mnist": ("validation_loss", False, "validation_accuracy"),
        "molhiv": ("validation_roc-auc", True, "validation_roc-auc"),
    }


def test_the_paper_s_schedule_is_torch_s(tmp_path, world):
    runner = runner_of(small("molhiv/pna", "training.schedule=plateau"), seed=0)
    trainer = Trainer(runner, build_model(runner), tmp_path, world)
    schedule = trainer.schedule
    trainer.close()
    assert isinstance(schedule, ReduceLROnPlateau)
    assert (schedule.mode, schedule.factor, schedule.patience) == ("max", 0.5, 5)


def test_scores_do_not_depend_on_how_many_graphs_are_scored_at_once():
    scores = []
    for count in (1, 100):
        runner = runner_of(small("mnist-edges/pna", f"evaluation.graphs_per_batch={count}"), 0)
        torch.manual_seed(0)
        model = runner.model().eval()
        with torch.no_grad():
            scores.append(runner.score(model, "train", torch.device("cpu")))
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_the_loss_is_that_of_the_measure_and_correct_classes_are_counted():
    for name in ("zinc/gru", "mnist/pna", "molhiv/gru"):
        runner = runner_of(small(name), seed=0)
        measure = runner.task.metric
        model, store = runner.model().eval(), runner.train()
        batch = store.take(torch.arange(len(store)))
        said = model(batch.x, batch.edge_index, batch.edge_attr, batch.groups.index, len(batch))
        loss, counts = runner.loss(model, batch)
        expected = score_answers(measure, said.detach(), batch.y)
        assert loss.item() == pytest.approx(expected.loss)
        if measure == "accuracy":
            assert float(counts["accuracy"]) / len(batch) == pytest.approx(expected.measure)


def test_pna_is_told_the_degrees_of_its_training_graphs():
    for name in ("zinc", "molhiv"):
        runner = runner_of(small(f"{name}/pna"), seed=0)
        delta = average_log_degree(runner.task.split("train"))
        scalers = [m for m in runner.model().modules() if hasattr(m, "avg_deg_log")]
        assert len(scalers) == 2
        for scaler in scalers:
            assert float(scaler.avg_deg_log) == pytest.approx(delta)


def test_without_its_data_nothing_begins(tmp_path, world, monkeypatch):
    monkeypatch.setenv("TREEFOLD_DATA", str(tmp_path))
    with pytest.raises(MissingData, match="`treefold data fetch zinc`"):
        train(tmp_path / "run", world, small("zinc/pna"))
    assert not (tmp_path / "run").exists()


def test_a_record_says_how_the_files_differ_from_the_official_ones():
    found = {name: differences_from_official(task()) for name, task in GRAPH_TASKS.items()}
    assert found["mnist"][0] == (
        "mnist has 2 / 1 / 1 graphs; the official release has 55,000 / 5,000 / 10,000"
    )
    # The test data keeps the official first molecules of val and test.
    assert [sentence for sentence in found["zinc"] if "begin" in sentence] == [
        "zinc train does not begin with the official graph: others are in it"
    ]


def test_unknown_splits_are_refused():
    with pytest.raises(ValueError, match="unknown split 'tset'; did you mean test"):
        runner_of(small("zinc/pna"), seed=0).cases("tset")
