"""Scores of answers for whole graphs: a loss to train with, and torchmetrics' measure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.names import by_name
from treefold.shapes import Float, Shaped


class AnswerScore(NamedTuple):
    """The mean loss over graphs, and the measure of the task."""

    loss: float
    measure: float


@dataclass(frozen=True)
class Measure:
    """The loss and the score of one kind of answer."""

    loss: Callable[[Tensor, Tensor], Tensor]
    of: Callable[[Tensor, Tensor], float]
    highest: bool
    paces: bool
    """True if a plateau schedule follows the measure, and not the loss."""


def score_answers(
    measure: str, answers: Float[Tensor, " graphs outputs"], wanted: Shaped[Tensor, " graphs"]
) -> AnswerScore:
    """The score of all answers to a split at once, not a mean over batches."""
    found = measure_of(measure)
    return AnswerScore(float(found.loss(answers, wanted)), found.of(answers, wanted))


def measure_of(name: str) -> Measure:
    """The measure of that name: mae, roc-auc or accuracy."""
    return by_name(MEASURES, name, "measure")


def _absolute_error(answers: Tensor, wanted: Tensor) -> Tensor:
    return F.l1_loss(answers.squeeze(1), wanted)


def _binary_cross_entropy(answers: Tensor, wanted: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(answers.squeeze(1), wanted.to(answers.dtype))


def _mae(answers: Tensor, wanted: Tensor) -> float:
    from torchmetrics.functional import mean_absolute_error  # noqa: PLC0415  (takes a second)

    return float(mean_absolute_error(answers.squeeze(1), wanted))


def _roc_auc(answers: Tensor, wanted: Tensor) -> float:
    """Not a number where all graphs are of one class: there is no curve."""
    from torchmetrics.functional.classification import binary_auroc  # noqa: PLC0415

    if wanted.unique().numel() < 2:
        return math.nan
    # In double: torchmetrics takes a sigmoid first, and in float large logits would become ties.
    return float(binary_auroc(answers.squeeze(1).double(), wanted.long()))


def _accuracy(answers: Tensor, wanted: Tensor) -> float:
    from torchmetrics.functional.classification import multiclass_accuracy  # noqa: PLC0415

    classes = answers.shape[1]
    return float(multiclass_accuracy(answers, wanted, num_classes=classes, average="micro"))


MEASURES = {
    "mae": Measure(_absolute_error, _mae, highest=False, paces=False),
    "roc-auc": Measure(_binary_cross_entropy, _roc_auc, highest=True, paces=True),
    "accuracy": Measure(F.cross_entropy, _accuracy, highest=True, paces=False),
}
"""By the name that tasks give. PNA cuts learning rates by the loss, on MolHIV by the measure."""


@torch.no_grad()
def num_correct(
    answers: Float[Tensor, " graphs outputs"], wanted: Shaped[Tensor, " graphs"]
) -> Tensor:
    """The number of graphs whose class is the most likely one."""
    return (answers.argmax(1) == wanted).sum()
