"""Losses and scores of answers, over whole splits; and what a constant answer would score."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.functional import mean_absolute_error

from treefold.lab.compare.dataset import Dataset
from treefold.lab.compare.examples import Asked, AskedBatch
from treefold.lab.compare.problem import Question
from treefold.lab.runs import measure_of


@dataclass(frozen=True, eq=False)
class Scoring:
    """How a network is taught and judged; numbers are brought to a common scale for the loss.

    One number is scored in its own units, several in deviations of the training data, so that none
    of them drowns the others.
    """

    question: Question
    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, dataset: Dataset) -> "Scoring":
        """With the scale of the training answers."""
        if dataset.question.kind == "classification":
            return cls(dataset.question, torch.zeros(1), torch.ones(1))
        y = dataset.answers("train")
        scale = y.std(0, correction=0)
        return cls(dataset.question, y.mean(0).float(), scale.masked_fill(scale == 0, 1).float())

    def loss(self, model: nn.Module, batch: AskedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of classes, absolute error of numbers."""
        answers = model(batch.graphs)[batch.asked]
        if self.question.kind == "classification":
            return F.cross_entropy(answers, batch.y), {}
        return F.l1_loss(answers, self._scaled(batch.y)), {}

    @torch.no_grad()
    def score(self, model: nn.Module, data: Asked, batch_size: int, device: torch.device) -> float:
        """The metric over all answers of a split."""
        model.eval()
        answers, expected = [], []
        for chosen in torch.arange(len(data)).split(batch_size):
            batch = data.take(chosen).to(device)
            answers.append(model(batch.graphs)[batch.asked])
            expected.append(batch.y)
        return self._metric(torch.cat(answers), torch.cat(expected))

    def constant(self, dataset: Dataset, split: str) -> float:
        """What the best constant answer of the training data scores on a split."""
        known, y = dataset.answers("train"), dataset.answers(split)
        if self.question.kind == "classification":
            shares = torch.bincount(known, minlength=self.question.num_outputs).float()
            return self._metric(shares.expand(len(y), -1), y)
        middle = self._scaled(known.median(0).values)
        return self._metric(middle.expand(len(y), -1), y)

    def _scaled(self, y: Tensor) -> Tensor:
        return ((y - self.shift.to(y)) / self.scale.to(y)).float()

    def _metric(self, answers: Tensor, y: Tensor) -> float:
        if self.question.metric == "mae":
            errors = mean_absolute_error(answers, self._scaled(y), self.question.num_outputs)
            one = self.question.num_outputs == 1
            return float((errors * self.scale.to(errors)).mean() if one else errors.mean())
        if self.question.metric == "roc-auc":  # of two classes: how much likelier the second is
            answers = answers[:, 1:] - answers[:, :1]
        return measure_of(self.question.metric).of(answers, y)
