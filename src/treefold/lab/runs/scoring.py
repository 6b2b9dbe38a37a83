"""Answers and scores on set tasks."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.lab.tasks import SetData, from_bits, to_bits


def loss_and_correct(model: nn.Module, batch: SetData) -> tuple[Tensor, dict[str, Tensor]]:
    """The cross-entropy of the answers' bits, and how many sets are answered correctly in full."""
    logits = model(batch.values, batch.groups)
    loss = F.binary_cross_entropy_with_logits(
        logits, to_bits(batch.answers, logits.shape[-1]).to(logits.dtype)
    )
    return loss, {"accuracy": (from_bits(logits.detach() > 0) == batch.answers).sum()}


@torch.no_grad()
def score(model: nn.Module, data: SetData, elements_per_batch: int) -> tuple[float, float]:
    """The mean loss, and the fraction of sets that are answered correctly."""
    model.eval()
    loss, correct = 0.0, 0
    for batch in _batches(data, elements_per_batch):
        batch_loss, counts = loss_and_correct(model, batch)
        loss += float(batch_loss) * len(batch)
        correct += int(counts["accuracy"])
    return loss / len(data), correct / len(data)


def _batches(data: SetData, elements_per_batch: int) -> Iterator[SetData]:
    """Consecutive sets, about as many elements at a time."""
    batch_of_set = (data.sizes.cumsum(0) - 1) // elements_per_batch
    for number in batch_of_set.unique().tolist():
        yield data.take((batch_of_set == number).nonzero().squeeze(1))
