"""Runs on graphs: complete records, the same pipeline as sets, numbers checked one by one."""

import math

import pytest
import torch

from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.multitask_runner import answers, batches_by_size
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.running import run
from treefold.lab.experiments.trainer import Watcher
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.tasks import TARGETS

SMALL = [
    "training.epochs=2",
    "training.batch_size=4",
    "model.channels=8",
    "task.num_train=40",
    "task.num_validation=10",
    "task.num_test=10",
    "task.num_extrapolation=10",
]


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TREEFOLD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def small(row, *more):
    return override(find_experiment(f"multi-task/{row}", "smoke")[0], [*SMALL, *more])[0]


def train(folder, world, experiment, **options):
    return run(experiment, preset="smoke", seed=1, folder=folder, world=world, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, world):
    folder = tmp_path_factory.mktemp("run")
    train(folder, world, small("binary-gru-assoc"))
    return folder


def test_a_record_has_the_errors_of_every_target_and_split(trained):
    record = Record.read(trained)
    assert record.status == "finished"
    metrics = record.metrics
    assert metrics["mse"].keys() == {"test", "extrapolation-20-24"}
    assert list(metrics["mse"]["test"]) == list(TARGETS)
    for target in TARGETS:
        error, baseline = (metrics[kind]["test"][target] for kind in ("mse", "baseline_mse"))
        assert metrics[f"log10_mse@{target}"] == pytest.approx(math.log10(error))
        assert baseline > 0
    logs = [metrics[f"log10_mse@{target}"] for target in TARGETS]
    assert metrics["log10_mse@average"] == pytest.approx(sum(logs) / 6)
    ratios = [
        math.log10(metrics["mse"]["test"][target] / metrics["baseline_mse"]["test"][target])
        for target in TARGETS
    ]
    assert metrics["log10_ratio"]["test"] == pytest.approx(sum(ratios) / 6)
    assert record.reported["log10_mse@laplacian"]["value"] == -2.92


def test_the_log_has_losses_and_law_violations(trained):
    rows = MetricsLog.read(trained)
    assert [row["epoch"] for row in rows] == [1, 2]
    best = min(row["validation_loss"] for row in rows)
    assert Record.read(trained).metrics["validation_loss"] == best
    assert all(row["law:commutativity"] < 1e-5 < row["law:associativity"] for row in rows)
    assert rows[0]["train_loss"] > rows[1]["train_loss"] > 0


def test_a_crash_changes_no_number(tmp_path, world, trained):
    class Crash(BaseException):
        pass

    def crash(progress, steps):
        if (progress.epoch, progress.step) == (2, 3):
            raise Crash

    with pytest.raises(Crash):
        train(tmp_path, world, small("binary-gru-assoc"), watcher=Watcher(step=crash))
    train(tmp_path, world, small("binary-gru-assoc"))
    for column in ("train_loss", "validation_loss", "law:associativity"):
        found, expected = ([row[column] for row in MetricsLog.read(f)] for f in (tmp_path, trained))
        assert found == expected
    assert Record.read(tmp_path).metrics["mse"] == Record.read(trained).metrics["mse"]


@pytest.mark.parametrize("row", ["gcn", "gat", "gin", "mpnn-sum", "mpnn-max", "pna-16",
                                 "pna-one-tower", "gru", "gru-16", "gated-selection",
                                 "binary-gru-readout"])  # fmt: skip
def test_every_row_runs(tmp_path, world, row):
    record = train(tmp_path, world, small(row, "training.epochs=1", "evaluation.splits=test"))
    assert record.status == "finished"
    assert math.isfinite(record.metrics["log10_mse@average"])


def test_the_loss_is_the_mean_of_six_squared_errors():
    runner = runner_of(small("mpnn-sum"), seed=0)
    model = build_model(runner).eval()
    batch = runner.train().take(torch.arange(6))
    nodes, graphs = answers(model, batch)
    pairs = ((nodes, batch.node_y), (graphs, batch.graph_y))
    per_target = torch.cat([(found - wanted).square().mean(0) for found, wanted in pairs])
    loss, counts = runner.loss(model, batch)
    torch.testing.assert_close(loss, per_target.mean())
    assert counts == {}


def test_errors_are_means_over_sizes_and_the_baseline_is_its_own_measure():
    class Nothing(torch.nn.Module):
        def forward(self, x, edge_index, batch, num_graphs):
            return torch.zeros(len(x), 3), torch.zeros(num_graphs, 3)

    runner = runner_of(small("mpnn-sum"), seed=0)
    found = runner.score(Nothing(), "test", torch.device("cpu"))
    test = runner.task.split("test")
    by_size = [test.graph_y[test.sizes == size].square().mean(0) for size in test.sizes.unique()]
    assert found.errors[3:] == pytest.approx(torch.stack(by_size).mean(0).tolist(), rel=1e-5)
    of_baseline = runner.metrics({"test": runner.task.baseline("test")})
    assert of_baseline["log10_ratio"]["test"] == pytest.approx(0)
    assert of_baseline["log10_ratio_of_means"]["test"] == pytest.approx(0)


def test_scores_do_not_depend_on_how_many_graphs_are_scored_at_once():
    scores = []
    for count in (3, 100):
        runner = runner_of(small("pna-16", f"evaluation.graphs_per_batch={count}"), seed=0)
        torch.manual_seed(0)
        model = runner.model().eval()
        with torch.no_grad():
            scores.append(runner.score(model, "test", torch.device("cpu")).errors)
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


def test_pna_is_told_the_degrees_of_its_training_graphs():
    runner = runner_of(small("pna-16"), seed=0)
    delta = runner.task.mean_log_degree()
    scalers = runner.model().next.aggregators[0].aggregation
    assert float(scalers.avg_deg_log) == pytest.approx(delta)


def test_batches_hold_one_size_each_in_pna_s_order_or_shuffled():
    data = runner_of(small("gcn"), seed=0).train()
    fixed = batches_by_size(data, 3)
    assert [data.sizes[batch].tolist() for batch in fixed] == [
        [size] * count for size in range(15, 25) for count in (3, 1)
    ]
    generator = torch.Generator().manual_seed(0)
    mixed = batches_by_size(data, 3, generator)
    assert all(len(set(data.sizes[batch].tolist())) == 1 for batch in mixed)
    assert sorted(torch.cat(mixed).tolist()) == list(range(len(data)))
    assert [b.tolist() for b in mixed] != [b.tolist() for b in fixed]
    assert [b.tolist() for b in batches_by_size(data, 3, generator)] != [b.tolist() for b in mixed]


def test_a_recipe_says_whether_batches_mix_sizes():
    def of(*changes):
        runner = runner_of(small("gcn", *changes), seed=0)
        data = runner.train()
        batches = runner.batches(data, 8, torch.Generator().manual_seed(0))
        assert sorted(torch.cat(list(batches)).tolist()) == list(range(len(data)))
        return [len(set(data.sizes[batch].tolist())) for batch in batches]

    assert min(of()) > 1
    assert set(of("training.mixed_sizes=false")) == {1}
    paper = find_experiment("multi-task/gcn", "paper")[0]
    assert not paper.training.mixed_sizes
    departures = find_experiment("multi-task/gcn", "quick")[0].departures
    assert "training.mixed_sizes is True; the paper has False" in departures


def test_unknown_splits_are_refused():
    with pytest.raises(ValueError, match="unknown split 'tset'; did you mean test"):
        runner_of(small("gcn"), seed=0).cases("tset")
