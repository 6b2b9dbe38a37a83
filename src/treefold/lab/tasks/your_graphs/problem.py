"""The problem of a data set: a class or numbers, of nodes or of graphs, and the score."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from treefold.lab.tasks.your_graphs.collected import Collected
from treefold.names import by_name

Level: TypeAlias = Literal["node", "graph"]
Kind: TypeAlias = Literal["classification", "regression"]
Metric: TypeAlias = Literal["accuracy", "roc-auc", "mae"]

LEVELS: dict[str, Level] = {"node": "node", "graph": "graph"}
KINDS: dict[str, Kind] = {"classification": "classification", "regression": "regression"}
METRICS: dict[str, Metric] = {"accuracy": "accuracy", "roc-auc": "roc-auc", "mae": "mae"}
RARE = 0.2
"""A rarer one of two classes below this share makes ROC-AUC the metric, not accuracy."""
MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Problem:
    """The answers that a network should give."""

    level: Level
    kind: Kind
    metric: Metric
    num_outputs: int
    """Classes, or numbers to be met."""

    @property
    def highest(self) -> bool:
        """True if a higher score is the better one."""
        return self.metric != "mae"


def problem_of(
    data: Collected, kind: str | None = None, metric: str | None = None
) -> tuple[Problem, Tensor]:
    """The problem that the data poses, and all answers: classes from 0, or a table of numbers."""
    if data.y is None:
        raise ValueError("a graph has no y, there is nothing to predict; give every one y")
    if kind is not None:
        by_name(KINDS, kind, "task")
    level = _level(data)
    y = data.y.float() if data.y.dtype == torch.bool else data.y
    if y.dim() > 1 and y.shape[1:].numel() == 1:
        y = y.reshape(len(y))
    if y.is_floating_point() and not bool(y.isfinite().all()):
        missing = int((~y.isfinite()).sum())
        raise ValueError(f"y has {missing} entries that are not finite; leave those rows out")
    found: Kind = KINDS[kind] if kind else _kind(y)
    if found == "regression":
        numbers = y.double().reshape(len(y), -1)
        return Problem(level, found, _regression(metric), numbers.shape[1]), numbers
    classes = _classes(y)
    return Problem(level, found, _classification(metric, classes), int(classes.max()) + 1), classes


def _level(data: Collected) -> Level:
    of_nodes = bool((data.num_answers == data.sizes).all())
    of_graphs = bool((data.num_answers == 1).all())
    if of_nodes and of_graphs:
        raise ValueError(
            "every graph has one node and one y, so it cannot be inferred whether nodes or graphs "
            "have answers; expected larger graphs"
        )
    if of_nodes or of_graphs:
        return "node" if of_nodes else "graph"
    wrong = int(((data.num_answers != data.sizes) & (data.num_answers != 1)).int().argmax())
    rows, nodes = int(data.num_answers[wrong]), int(data.sizes[wrong])
    raise ValueError(
        f"y of graph {wrong} has {rows} rows; expected 1, for the graph, in all graphs (several "
        f"numbers for a graph are a row [1, {rows}]), or as many as nodes, here {nodes}, in all"
    )


def _kind(y: Tensor) -> Kind:
    if not y.is_floating_point():
        return "classification"
    if bool(((y == 0) | (y == 1)).all()):
        raise ValueError(
            "y holds floats, but only 0 and 1: it is unclear whether these are two classes or "
            "numbers; make y integers, or give --task classification or --task regression"
        )
    return "regression"


def _classes(y: Tensor) -> Tensor:
    if y.dim() > 1:
        raise ValueError(
            f"y has {y.shape[1:].numel()} columns; expected one with the number of a class. For "
            "numbers to be met, give --task regression"
        )
    classes = y.long()
    if not bool((classes == y).all()):
        raise ValueError("y holds fractions; expected the numbers of classes for a classification")
    lowest, highest = int(classes.min()), int(classes.max())
    if lowest < 0:
        raise ValueError(f"y holds the class {lowest}; expected classes from 0 on")
    if highest >= MOST_CLASSES:
        raise ValueError(
            f"y holds whole numbers up to {highest:,}, which look like no classes; make y floats, "
            "or give --task regression"
        )
    if len(classes.unique()) < 2:
        raise ValueError(f"y is {highest} everywhere; expected two classes or more")
    return classes


def _regression(metric: str | None) -> Metric:
    if metric not in (None, "mae"):
        raise ValueError(f"--metric {metric} is for classes, but y are numbers; expected mae")
    return "mae"


def _classification(metric: str | None, classes: Tensor) -> Metric:
    binary = int(classes.max()) == 1
    if metric is None:
        rarer = min(float((classes == 0).double().mean()), float((classes == 1).double().mean()))
        return "roc-auc" if binary and rarer < RARE else "accuracy"
    chosen = by_name(METRICS, metric, "metric")
    if chosen == "mae":
        raise ValueError("--metric mae is for numbers, but y are classes; expected accuracy")
    if chosen == "roc-auc" and not binary:
        raise ValueError(f"--metric roc-auc needs two classes; y has {int(classes.max()) + 1}")
    return chosen
