"""The runner of multisets: shuffled batches, bits as answers, an accuracy for each size."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.aggr import aggregator
from treefold.fold import TableRows
from treefold.lab.experiments.task_runner import Folded, TaskRunner
from treefold.lab.networks import OracleNetwork, SetNetwork
from treefold.lab.runs import some_examples
from treefold.lab.tasks import SetData, SetTask, from_bits, to_bits


class Balanced(NamedTuple):
    """The case of sets of a size whose answers are distributed evenly."""

    size: int


Case: TypeAlias = int | Balanced
ORACLE = "oracle"


class SetRunner(TaskRunner):
    """A task on multisets; the best checkpoint answers the most validation sets."""

    chosen_by = "validation_accuracy"
    other_aggregators = (ORACLE,)

    @property
    def task(self) -> SetTask:
        """The task."""
        task: SetTask = self.experiment.task
        return task

    @cached_property
    def validation(self) -> SetData:
        """The validation sets."""
        return self.task.validation(self.seed)

    def model(self) -> nn.Module:
        """The network of the recipe; `oracle` gets the exact monoid of its task."""
        choice, channels = self.experiment.aggregator, self.experiment.model.channels
        if choice.name == ORACLE:
            return OracleNetwork(self.task)
        made = aggregator(choice.name, channels, **choice.options)
        return SetNetwork(self.task.bits, self.task.answer_bits, channels, made)

    def train(self) -> SetData:
        """The training sets."""
        return self.task.train(self.seed)

    def loss(self, model: nn.Module, batch: SetData) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of bits, and correct sets."""
        return loss_and_correct(model, batch)

    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The loss and the accuracy."""
        loss, accuracy = score(model, self.validation.to(device), self._elements)
        return {"validation_loss": loss, "validation_accuracy": accuracy}

    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """The aggregator, with embeddings of some validation sets."""
        if not isinstance(model, SetNetwork):
            return ()
        data: SetData = some_examples(self.validation, device)
        return (Folded(model.aggregator, TableRows(model.table(), data.values), data.groups),)

    def cases(self, wanted: str | None = None) -> Sequence[Case]:
        """Sizes of sets, of uniform integers and of evenly distributed answers."""
        if wanted:
            return parse_cases(wanted)
        evaluation = self.experiment.evaluation
        return (*evaluation.sizes, *map(Balanced, evaluation.balanced_sizes))

    def score(self, model: nn.Module, case: Case, device: torch.device) -> float:
        """The accuracy on sets of a size."""
        draw = self.task.balanced if isinstance(case, Balanced) else self.task.evaluation
        data = draw(case.size if isinstance(case, Balanced) else case, self.seed)
        return score(model, data.to(device), self._elements)[1]

    def shown(self, case: Case, score: float) -> dict[str, Any]:
        """The size and the accuracy."""
        name = f"balanced {case.size}" if isinstance(case, Balanced) else case
        return {"size": name, "accuracy": score}

    def metrics(self, scores: Mapping[Case, float]) -> dict[str, Any]:
        """The columns of the paper's table, and the accuracy at every size."""
        uniform = {case: value for case, value in scores.items() if isinstance(case, int)}
        balanced = {
            case.size: value for case, value in scores.items() if isinstance(case, Balanced)
        }
        found: dict[str, Any] = summary(uniform, self.task.max_train_size)
        found |= {f"accuracy@balanced-{n}": balanced[n] for n in (16, 200, 1000) if n in balanced}
        found["accuracy"] = {str(size): value for size, value in uniform.items()}
        if balanced:
            found["balanced_accuracy"] = {str(size): value for size, value in balanced.items()}
        return found

    @property
    def _elements(self) -> int:
        elements: int = self.experiment.evaluation.elements_per_batch
        return elements


def summary(accuracy: Mapping[int, float], max_train_size: int) -> dict[str, float]:
    """The columns of the paper's table: the mean over all training sizes, and two sizes beyond."""
    inside = [accuracy[size] for size in range(1, max_train_size + 1) if size in accuracy]
    whole = len(inside) == max_train_size
    found = {f"accuracy@1-{max_train_size}": sum(inside) / len(inside)} if whole else {}
    return found | {f"accuracy@{size}": accuracy[size] for size in (32, 200) if size in accuracy}


def parse_cases(text: str) -> tuple[Case, ...]:
    """`1-16,32` as sizes of uniform sets, `balanced:16,200` as those of balanced ones.

    Both together are `1-16,32,balanced:16,200`: all sizes behind `balanced:` are balanced.
    """
    uniform, colon, balanced = text.partition("balanced:")
    if ":" in uniform + balanced or (colon and uniform and not uniform.endswith(",")):
        raise ValueError(
            f"sizes are {text!r}; expected something like 1-16,32 or balanced:16,200, or first the "
            "one and then the other: 1-16,32,balanced:16,200"
        )
    if not colon:
        return parse_sizes(uniform)
    before = parse_sizes(uniform.removesuffix(",")) if uniform else ()
    return (*before, *map(Balanced, parse_sizes(balanced)))


def parse_sizes(text: str) -> tuple[int, ...]:
    """`1-16,32` as numbers."""
    sizes: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            span = range(int(first), int(last or first) + 1)
            if not span:
                raise ValueError("from a larger size to a smaller one")
            sizes += span
    except ValueError:
        raise ValueError(f"sizes are {text!r}; expected something like 1-16,32,200") from None
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes are {text!r}; expected sizes from 1 up")
    return tuple(sizes)


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
