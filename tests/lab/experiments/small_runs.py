"""Runs of a second, and all the numbers that they come to."""

from treefold.checkpoints import CheckpointStore
from treefold.lab.experiments.catalogue import find_experiment
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.running import run
from treefold.lab.runs import MetricsLog, Record

SMALL = [
    "training.epochs=3",
    "training.batch_size=32",
    "model.channels=8",
    "task.num_train=128",
    "task.num_validation=16",
    "task.num_evaluation=8",
    "evaluation.sizes=1,16,32,200",
]


def small(name="second-minimum/binary-gru-assoc", *more):
    return override(find_experiment(name, "smoke")[0], [*SMALL, *more])[0]


def train(folder, world, experiment=None, seed=1, **options):
    experiment = experiment or small()
    return run(experiment, preset="smoke", seed=seed, folder=folder, world=world, **options)


def numbers(folder):
    """All that a run computed: its log without times, its scores, its last parameters."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in MetricsLog.read(folder)]
    metrics = Record.read(folder).metrics
    # A checkout may have moved on meanwhile.
    metrics = {k: v for k, v in metrics.items() if "seconds" not in k and "commit" not in k}
    tensors = CheckpointStore(folder / "checkpoints", "last").load().tensors
    return rows, metrics, {name: tensor.tolist() for name, tensor in tensors.items()}


class Crash(BaseException):
    """An error that no run is prepared for."""
