"""Every precision trains sets and graphs, resumes after a stop, and is written down."""

import os
import signal

import pytest
import torch

from treefold.checkpoints import CheckpointStore
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.loading import best_model
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.running import run
from treefold.lab.experiments.trainer import Watcher
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.precision import PRECISIONS
from treefold.lab.runs.signals import Stopped
from treefold.lab.runs.world import World

SETS = [
    "training.epochs=2",
    "training.batch_size=16",
    "model.channels=8",
    "task.num_train=48",
    "task.num_validation=16",
    "task.num_evaluation=8",
    "evaluation.sizes=1,16",
    "evaluation.balanced_sizes=",
]
GRAPHS = ["training.epochs=1", "model.channels=8"]


def made(name, changes, folder, precision, **options):
    experiment = override(find_experiment(name, "smoke")[0], changes)[0]
    world = World(precision=precision)
    return run(experiment, preset="smoke", seed=1, folder=folder, world=world, **options)


def set_run(folder, precision, **options):
    return made("second-minimum/binary-gru-assoc", SETS, folder, precision, **options)


def numbers(folder):
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in MetricsLog.read(folder)]
    tensors = CheckpointStore(folder / "checkpoints", "last").load().tensors
    return rows, {name: tensor.tolist() for name, tensor in tensors.items()}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # of a skipped step
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_set_task_trains_in_every_precision_and_goes_on_after_a_stop(tmp_path, precision):
    record = set_run(tmp_path / "whole", precision)
    assert record.status == "finished"
    assert record.machine["precision"] == precision
    losses = [row["train_loss"] for row in MetricsLog.read(tmp_path / "whole")]
    assert all(0.5 < loss < 0.8 for loss in losses)  # that of a coin is 0.69

    seen = []

    def interrupt(progress, steps):
        seen.append(progress.step)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        set_run(tmp_path / "stopped", precision, watcher=Watcher(step=interrupt))
    set_run(tmp_path / "stopped", precision)
    assert numbers(tmp_path / "stopped") == numbers(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_multi_task_benchmark_trains_in_every_precision(tmp_path, precision):
    record = made("multi-task/binary-gru", GRAPHS, tmp_path, precision)
    assert record.status == "finished"
    assert -3 < record.metrics["log10_mse@average"] < 1


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_half_precision_leaves_out_steps_that_overflow_until_its_scale_fits(tmp_path):
    experiment = override(find_experiment("second-minimum/binary-gru-assoc", "smoke")[0], SETS)[0]
    world = World(precision="16-mixed")

    def overdo(progress, steps):
        if (progress.epoch, progress.step) == (1, 1):
            world.scaler.load_state_dict({**world.scaler.state_dict(), "scale": 2.0**40})

    scales = []
    for name, watcher in (("overdone", Watcher(step=overdo)), ("usual", Watcher())):
        folder = tmp_path / name
        run(experiment, preset="smoke", seed=1, folder=folder, world=world, watcher=watcher)
        kept = CheckpointStore(folder / "checkpoints", "last").load()
        scales.append(kept.state["scaler"]["scale"])
    assert scales[0] == 2.0**35  # halved in each of the five steps that were left
    assert 2.0**10 < scales[1] <= 2.0**16  # starts again with every run


def test_double_precision_is_close_to_single_and_not_the_same(tmp_path):
    for precision in ("32-true", "64-true"):
        set_run(tmp_path / precision, precision)
    single, double = (numbers(tmp_path / name)[0][0] for name in ("32-true", "64-true"))
    # Losses are summed in single precision either way, and may be the same to the last bit.
    assert single["law:associativity"] != double["law:associativity"]
    for column in ("law:associativity", "train_loss"):
        assert single[column] == pytest.approx(double[column], rel=1e-4)


def test_a_trained_network_is_loaded_in_the_type_it_was_trained_in(tmp_path):
    set_run(tmp_path, "64-true")
    experiment = override(find_experiment("second-minimum/binary-gru-assoc", "smoke")[0], SETS)[0]
    model = best_model(tmp_path, runner_of(experiment, 0))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}


@pytest.mark.parametrize(
    ("precision", "message"),
    [("16-true", "rounded to 0; use 16-mixed"), ("32-tru", "did you mean 32-true")],
)
def test_a_precision_that_cannot_work_is_refused(precision, message):
    with pytest.raises(ValueError, match=message):
        World(precision=precision)


def test_an_unusual_precision_is_part_of_the_variant(tmp_path):
    set_run(tmp_path / "half", "bf16-mixed", overrides={"training.epochs": 2})
    assert Record.read(tmp_path / "half").overrides == {
        "training.epochs": 2,
        "precision": "bf16-mixed",
    }


def test_a_run_is_not_resumed_in_another_precision(tmp_path):
    def stop(progress, steps):
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        set_run(tmp_path, "bf16-mixed", watcher=Watcher(step=stop))
    message = "begun with precision bf16-mixed, not precision 32-true.*--precision bf16-mixed"
    with pytest.raises(ValueError, match=message):
        set_run(tmp_path, "32-true")
