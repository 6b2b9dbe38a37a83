"""The runner of multisets: shuffled batches, bits as answers, an accuracy for each size."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.aggr import aggregator
from treefold.fold import TableRows
from treefold.lab.experiments.counterexamples import Disagreements, find_disagreements
from treefold.lab.experiments.recipe import AggregatorChoice
from treefold.lab.experiments.states import states_of_network
from treefold.lab.experiments.task_runner import Folded, TaskRunner
from treefold.lab.networks import CountingNetwork, OracleNetwork, SetNetwork, asked
from treefold.lab.runs import some_examples
from treefold.lab.tasks import SetData, SetTask, from_bits, to_bits
from treefold.operators import FiniteSelection


class Balanced(NamedTuple):
    """The case of sets of a size whose answers are distributed evenly."""

    size: int


Case: TypeAlias = int | Balanced
ORACLE = "oracle"
MOST_WEIGHT = 30.0
"""The largest weight of a rare reply to a question."""


class Rarity(NamedTuple):
    """Weights that make rare replies and rare answers count as much as common ones."""

    yes: Tensor
    no: Tensor
    """For each question."""
    answers: Tensor
    """For each answer."""

    @classmethod
    def of(cls, answers: Tensor, bits: int) -> "Rarity":
        """From the answers of training sets."""
        share = asked(answers, bits).double().mean(0)
        counts = torch.bincount(answers, minlength=1 << bits)
        return cls(
            (0.5 / share).clamp(max=MOST_WEIGHT).float(),
            (0.5 / (1 - share)).clamp(max=MOST_WEIGHT).float(),
            1 / counts.clamp(min=1).float(),
        )


class SetRunner(TaskRunner):
    """A task on multisets; the best checkpoint answers the most validation sets."""

    task: SetTask
    chosen_by = "validation_accuracy"
    other_aggregators = (ORACLE,)
    _taught: Disagreements | None = None

    @property
    def logs_laws(self) -> bool:  # type: ignore[override]
        """Not of counters, which obey them by construction."""
        return not self.experiment.model.counting

    @cached_property
    def validation(self) -> SetData:
        """The validation sets."""
        return self.task.validation(self.seed)

    def model(self) -> nn.Module:
        """The network of the recipe; `oracle` gets the exact monoid of its task."""
        choice, channels = self.experiment.aggregator, self.experiment.model.channels
        if choice.name == ORACLE:
            return OracleNetwork(self.task)
        if self.experiment.model.counting:
            return counting_network(self.task, choice)
        made = aggregator(choice.name, channels, **choice.options)
        return SetNetwork(self.task.bits, self.task.answer_bits, channels, made)

    def train(self) -> SetData:
        """The training sets."""
        return self._training_sets

    @cached_property
    def _training_sets(self) -> SetData:
        return self.task.train(self.seed)

    @cached_property
    def _rarity(self) -> Rarity:
        return Rarity.of(self._training_sets.answers, self.task.answer_bits)

    def loss(self, model: nn.Module, batch: SetData) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of bits, and correct sets."""
        if self.experiment.model.counting:
            return counting_loss(model, batch, self._rarity)
        loss, counts = loss_and_correct(model, batch)
        return loss + self._disagreement(model), counts

    def _disagreement(self, model: nn.Module) -> Tensor | float:
        """The loss of counterexamples, which are searched again in each epoch.

        A run that is resumed within an epoch looks for them again, and so finds others.
        """
        net = getattr(model, "module", model)  # a wrapper for several processes has it inside
        count = self.experiment.training.counterexamples
        if not (count and isinstance(net, SetNetwork) and net.training):
            return 0.0
        op = getattr(net.aggregator, "operator", None)
        if not isinstance(op, FiniteSelection) or not op.hard:
            return 0.0
        if self._taught is None:
            self._taught = find_disagreements(net, op, self._training_sets)
        return self._taught.loss(op, net.table(), count)

    def finish_epoch(self, model: nn.Module) -> None:
        """Settle, once they are hard, which counters are used; forget old counterexamples."""
        self._taught = None
        if isinstance(model, CountingNetwork):
            model.settle(self._training_sets)

    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The loss and the accuracy."""
        loss, accuracy = score(model, self.validation.to(device), self._elements)
        return {"validation_loss": loss, "validation_accuracy": accuracy}

    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """The aggregator, with embeddings of some validation sets."""
        if not isinstance(model, SetNetwork | CountingNetwork):
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

    def best_metrics(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """The number of states, if they are finite, and the laws that they obey."""
        states = states_of_network(model)
        return states.metrics() if states else {}

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

    Both together are `1-16,32,balanced:16,200`: all sizes after `balanced:` are balanced.
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


def counting_network(task: SetTask, choice: AggregatorChoice) -> CountingNetwork:
    """The network of finite counters, of the kinds that are among the aggregator's options."""
    kinds, others = choice.options.get("kinds"), set(choice.options) - {"kinds"}
    if choice.name != "finite-counters" or kinds is None or others:
        raise ValueError(
            f"model.counting is for finite-counters with kinds=... as the one option; got "
            f"{choice.name} with {choice.options}"
        )
    return CountingNetwork(task.bits, task.answer_bits, kinds)


def counting_loss(
    model: nn.Module, batch: SetData, rarity: Rarity
) -> tuple[Tensor, dict[str, Tensor]]:
    """The cross-entropies of all replies, and of the answer's bits, and correct sets.

    Yes weighs as much as no, and each answer as much as any other.
    """
    outputs, bits = model(batch.values, batch.groups), (len(rarity.answers) - 1).bit_length()
    digits, replies = outputs[:, :bits], outputs[:, bits:]
    right = asked(batch.answers, bits)
    weight = torch.where(right, rarity.yes.to(outputs), rarity.no.to(outputs)) / len(batch)
    tries = (1, replies.shape[1] // right.shape[1])
    asking = F.binary_cross_entropy_with_logits(
        replies, right.repeat(tries).to(outputs), weight.repeat(tries), reduction="sum"
    )
    share = rarity.answers.to(outputs)[batch.answers]
    reading = F.binary_cross_entropy_with_logits(
        digits,
        to_bits(batch.answers, bits).to(outputs),
        (share / share.sum())[:, None],
        reduction="sum",
    )
    return asking + reading, {"accuracy": (from_bits(digits > 0) == batch.answers).sum()}


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
