"""A model to fold with, from a run's folder."""

from pathlib import Path

import torch
from torch import nn

from treefold.aggr import LCMAggregation
from treefold.distributed import ModelFold
from treefold.lab.experiments.loading import load_model, run_of
from treefold.lab.networks import SetNetwork
from treefold.lab.runs import Record


def load_fold(path: str | Path) -> ModelFold:
    """A run's model: with its best parameters, or those of one of its checkpoints."""
    path = Path(path)
    return fold_of(load_model(path), Record.read(run_of(path)).name)


@torch.no_grad()
def fold_of(model: nn.Module, name: str = "the model") -> ModelFold:
    """The parts of a network that fold, or a ValueError if its aggregator is no monoid."""
    if not isinstance(model, SetNetwork) or not isinstance(model.aggregator, LCMAggregation):
        raise ValueError(
            f"{name} has no learned operator to merge states with; choose a run of an "
            "aggregator such as binary-gru"
        )
    # Whatever it was trained in: tables of states are in float32.
    model = model.float().eval()
    aggregator, table = model.aggregator, model.table()
    return ModelFold(
        operator=aggregator.operator,
        table=table if aggregator.project is None else aggregator.project(table),
        decoder=model.decoder,
        bracketing=aggregator.eval_bracketing,
    )
