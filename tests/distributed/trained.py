"""A run's folder with a model in it, made in a moment, and a table of events to fold with it."""

from pathlib import Path

import torch
from torch import Tensor, nn

from treefold import BinaryGRU
from treefold.checkpoints import CheckpointStore
from treefold.distributed import BinaryAnswers, ModelFold
from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.overrides import override
from treefold.lab.experiments.running import new_record
from treefold.lab.experiments.trainer import CHECKPOINTS
from treefold.lab.runs.state import capture

CHANNELS, NUM_VALUES = 8, 256


def run_folder(folder: Path, aggregator: str = "binary-gru") -> Path:
    """A run of 2nd-minimum whose best checkpoint is a fresh network."""
    experiment = find_experiment(f"second-minimum/{aggregator}", "smoke")[0]
    experiment, _ = override(experiment, [f"model.channels={CHANNELS}"])
    torch.manual_seed(0)
    (folder / CHECKPOINTS).mkdir(parents=True)
    runner = runner_of(experiment, seed=0)
    new_record(runner, "smoke", {}, {}).write(folder)
    CheckpointStore(folder / CHECKPOINTS, "best").save(capture(model=build_model(runner)))
    return folder


def fresh_fold() -> ModelFold:
    """A model to fold with, in memory."""
    torch.manual_seed(0)
    states, decoder = torch.randn(NUM_VALUES, CHANNELS), nn.Linear(CHANNELS, 8)
    return ModelFold(BinaryGRU(CHANNELS), states, BinaryAnswers(decoder))


def events(num_rows: int, num_users: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of a table: whose they are, and the integer that they hold."""
    generator = torch.Generator().manual_seed(seed)
    user = torch.randint(0, num_users, (num_rows,), generator=generator)
    x = torch.randint(0, NUM_VALUES, (num_rows,), generator=generator)
    return user, x
