"""Losses and scores of answers on a user's graphs, and the score of a constant answer."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.functional import mean_absolute_error

from treefold.lab.runs import AnswerScore, measure_of
from treefold.lab.tasks import Asked, AskedBatch, Dataset, Problem


@dataclass(frozen=True, eq=False)
class Scoring:
    """The loss and the score of a problem; numbers are brought to a common scale for the loss.

    One number is scored in its own units, several in deviations of the training data, so none of
    them drowns the others.
    """

    problem: Problem
    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, dataset: Dataset) -> "Scoring":
        """With the scale of the training answers."""
        if dataset.problem.kind == "classification":
            return cls(dataset.problem, torch.zeros(1), torch.ones(1))
        y = dataset.answers("train")
        scale = y.std(0, correction=0)
        return cls(dataset.problem, y.mean(0).float(), scale.masked_fill(scale == 0, 1).float())

    def loss(self, model: nn.Module, batch: AskedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of classes, absolute error of numbers."""
        return self._loss(model(batch.graphs)[batch.asked], batch.y), {}

    @torch.no_grad()
    def score(
        self, model: nn.Module, data: Asked, batch_size: int, device: torch.device
    ) -> AnswerScore:
        """The loss and the metric over all answers of a split."""
        model.eval()
        parts = list(self._answers(model, data, batch_size, device))
        answers, y = (torch.cat(part) for part in zip(*parts, strict=True))
        return AnswerScore(float(self._loss(answers, y)), self._metric(answers, y))

    def _answers(
        self, model: nn.Module, data: Asked, batch_size: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        for chosen in torch.arange(len(data)).split(batch_size):
            batch = data.take(chosen).to(device)
            yield model(batch.graphs)[batch.asked], batch.y

    def _loss(self, answers: Tensor, y: Tensor) -> Tensor:
        if self.problem.kind == "classification":
            return F.cross_entropy(answers, y)
        return F.l1_loss(answers, self._scaled(y))

    def constant(self, dataset: Dataset, split: str) -> float:
        """The score on a split of the best constant answer of the training data."""
        known, y = dataset.answers("train"), dataset.answers(split)
        if self.problem.kind == "classification":
            shares = torch.bincount(known, minlength=self.problem.num_outputs).float()
            return self._metric(shares.expand(len(y), -1), y)
        middle = self._scaled(known.median(0).values)
        return self._metric(middle.expand(len(y), -1), y)

    def _scaled(self, y: Tensor) -> Tensor:
        return ((y - self.shift.to(y)) / self.scale.to(y)).float()

    def _metric(self, answers: Tensor, y: Tensor) -> float:
        if self.problem.metric == "mae":
            errors = mean_absolute_error(answers, self._scaled(y), self.problem.num_outputs)
            one = self.problem.num_outputs == 1
            return float((errors * self.scale.to(errors)).mean() if one else errors.mean())
        if self.problem.metric == "roc-auc":  # of two classes: how much likelier the second is
            answers = answers[:, 1:] - answers[:, :1]
        return measure_of(self.problem.metric).of(answers, y)
