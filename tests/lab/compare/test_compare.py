"""A comparison: equal budgets, records that can be trusted, and nothing done twice."""

import dataclasses
import shutil
import signal

import pytest
import torch
from lab.compare.graph_sets import graph_classes, graph_numbers, one_graph
from treefold.lab.compare.run import Onlooker, Run

from treefold.lab.compare import Budget, Listener, Plan, Size, collect, compare, dataset_of
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.signals import Stopped
from treefold.lab.runs.world import World

DATA = dataset_of("mine", collect(graph_classes()))
PLAN = Plan(("max", "binary-gru"), 2, Budget(epochs=2, batch_size=16), Size(8, 1))


@pytest.fixture(scope="module")
def world():
    return World("cpu")


@pytest.fixture(scope="module")
def done(tmp_path_factory, world):
    out = tmp_path_factory.mktemp("compared")
    ended = []
    listener = Listener(ends=lambda name, seed, record: ended.append((name, seed)))
    return out, compare(DATA, PLAN, out, world, listener), ended


def test_every_pair_is_run_first_seeds_first(done):
    out, compared, ended = done
    assert ended == [("max", 0), ("binary-gru", 0), ("max", 1), ("binary-gru", 1)]
    assert (compared.num_runs, compared.num_skipped, compared.failed) == (4, 0, ())
    for name, seed in ended:
        record = Record.read(out / name / f"seed-{seed}")
        assert record.status == "finished"
        assert record.name == f"mine/{name}"
        assert record.epochs == 2
        assert {"accuracy@train", "accuracy@val", "accuracy@test"} <= record.metrics.keys()
        assert record.metrics["step_memory"] > 10_000
        assert ("law:associativity" in record.metrics) == (name == "binary-gru")
        assert record.recipe["dataset"]["digest"] == DATA.digest
        rows = MetricsLog.read(out / name / f"seed-{seed}")
        best = max(row["validation_accuracy"] for row in rows)
        assert record.metrics["accuracy@val"] == pytest.approx(best)


def test_what_is_done_is_skipped_and_more_can_be_asked_for(done, world):
    out, _, _ = done
    before = (out / "max" / "seed-0" / "record.json").read_bytes()
    compared = compare(DATA, PLAN, out, world)
    assert (compared.num_runs, compared.num_skipped) == (4, 4)
    more = dataclasses.replace(PLAN, aggregators=("max", "binary-gru", "sum"), num_seeds=1)
    assert compare(DATA, more, out, world).num_skipped == 2
    assert (out / "max" / "seed-0" / "record.json").read_bytes() == before


def test_another_recipe_in_the_folder_is_found_before_any_work(done, world):
    out, _, _ = done
    longer = dataclasses.replace(PLAN, budget=Budget(epochs=3, batch_size=16))
    message = "a run with another training; give another --out, or remove that folder$"
    with pytest.raises(ValueError, match=message):
        compare(DATA, longer, out, world)
    wider = dataclasses.replace(PLAN, size=Size(16, 1))
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
    plan = Plan(("sum",), 1, Budget(epochs=40, learning_rate=0.01), Size(16, 1))
    compare(data, plan, tmp_path, world)
    found = Record.read(tmp_path / "sum" / "seed-0").metrics
    if metric == "accuracy":
        assert found["accuracy@train"] > 0.9
        assert found["accuracy@test"] > found["constant_accuracy"]
    else:
        assert found["mae@test"] < 0.5 * found["constant_mae"]


def test_a_budget_of_seconds_is_spent_and_hardly_more(tmp_path, world):
    plan = Plan(("max", "gru"), 1, Budget(None, 0.1, batch_size=4), Size(8, 1))
    shares = []
    onlooker = Onlooker(step=lambda progress, steps, spent: shares.append(spent))
    compare(DATA, plan, tmp_path, world, Listener(begins=lambda name, seed: onlooker))
    assert shares.count(1.0) == 2  # the last step of either run, and no step after it
    for name in ("max", "gru"):
        record = Record.read(tmp_path / name / "seed-0")
        assert record.preset == "0.1 seconds"
        assert record.seconds >= 0.1
        epochs = record.seconds / record.metrics["seconds_per_epoch"]
        assert epochs == pytest.approx(record.epochs, abs=1)


def test_a_run_whose_numbers_explode_is_recorded_and_the_others_go_on(tmp_path, world):
    graphs = graph_numbers()
    for graph in graphs:
        graph.x = graph.x.clone()
    data = dataset_of("mine", collect(graphs))
    data.train.store.x.fill_(float("inf"))  # as if training had gone wrong
    compared = compare(data, dataclasses.replace(PLAN, num_seeds=1), tmp_path, world)
    assert compared.failed == ("max with seed 0", "binary-gru with seed 0")
    record = Record.read(tmp_path / "max" / "seed-0")
    assert record.status == "failed"
    assert "the loss is nan" in record.error


def test_a_stopped_run_says_so_and_is_begun_anew(tmp_path, world):
    plan = dataclasses.replace(PLAN, aggregators=("sum",), num_seeds=1)

    def stop(progress, steps, spent):
        if (progress.epoch, progress.step) == (2, 1):
            signal.raise_signal(signal.SIGINT)

    listener = Listener(begins=lambda name, seed: Onlooker(step=stop))
    with pytest.raises(Stopped, match="SIGINT; the same command begins this run anew"):
        compare(DATA, plan, tmp_path, world, listener)
    assert Record.read(tmp_path / "sum" / "seed-0").status == "stopped"
    assert compare(DATA, plan, tmp_path, world).num_skipped == 0
    record = Record.read(tmp_path / "sum" / "seed-0")
    assert (record.status, record.epochs) == ("finished", 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan(("sum", "binary-gur")), "did you mean binary-gru"),
        (lambda: Plan(("sum", "sum")), "named twice"),
        (lambda: Plan(()), "no aggregators"),
        (lambda: Plan(num_seeds=0), "0 seeds"),
        (lambda: Budget(epochs=0), "epochs is 0"),
        (lambda: Budget(None, -1.0), "seconds is -1.0"),
        (lambda: Budget(3, 1.0), "either epochs or seconds"),
        (lambda: Budget(learning_rate=0.0), "learning rate is 0.0"),
        (lambda: Size(0, 1), "channels is 0"),
    ],
)
def test_wrong_plans_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_memory_step_leaves_the_network_as_it_was(world):
    run = Run(DATA, "binary-gru", 0, PLAN.budget, PLAN.size, world)
    before = [parameter.detach().clone() for parameter in run.model.parameters()]
    assert run.step_memory() > 0
    assert all(map(torch.equal, before, run.model.parameters()))
    assert all(p.grad is None or not p.grad.any() for p in run.model.parameters())


def test_a_torn_record_is_set_aside_and_its_run_made_again(done, tmp_path, world, caplog):
    shutil.copytree(done[0], tmp_path, dirs_exist_ok=True)
    folder = min(tmp_path.rglob("record.json")).parent
    (folder / "record.json").write_text('{"name": "torn')
    found = compare(DATA, PLAN, tmp_path, world)
    assert found.num_skipped == found.num_runs - 1
    assert "it is now called record.json.damaged" in caplog.text
    assert Record.read(folder).status == "finished"
