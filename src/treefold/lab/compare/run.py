"""One aggregator with one seed: train within the budget, choose by validation, judge by test."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from treefold.lab.compare.dataset import Dataset
from treefold.lab.compare.examples import AskedBatch
from treefold.lab.compare.memory import peak_memory
from treefold.lab.compare.network import SmallGNN, build_network
from treefold.lab.compare.plan import Budget, Size
from treefold.lab.compare.scores import Scoring
from treefold.lab.runs import (
    Progress,
    Stopped,
    StopRequest,
    World,
    fit,
    losses_of,
    num_steps,
    some_examples,
    violations_on,
)
from treefold.lab.tasks import SPLITS

Row = dict[str, float | int]


@dataclass(frozen=True)
class Onlooker:
    """Who looks on: called after every step and every epoch, with the share of the budget spent."""

    step: Callable[[Progress, int, float], None] = lambda progress, steps, spent: None
    epoch: Callable[[Row, int, float], None] = lambda row, steps, spent: None


@dataclass
class Standing:
    """The best epoch so far by validation, and the seconds of training without looking."""

    best: float | None = None
    best_epoch: int = 0
    best_state: dict[str, Any] | None = None
    seconds: float = 0.0


class Run:
    """The network, data and clock of one run."""

    def __init__(
        self, dataset: Dataset, name: str, seed: int, budget: Budget, size: Size, world: World
    ) -> None:
        self.dataset, self.budget, self.seed, self.world = dataset, budget, seed, world
        torch.manual_seed(seed)
        self.model = build_network(name, dataset, size.channels, size.layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=budget.learning_rate)
        self.wrapped, self.wrapped_optimizer = world.wrap(self.model, self.optimizer)
        self.scoring, self.standing = Scoring.of(dataset), Standing()
        self.progress, self.epochs = Progress(), 0
        self.steps = num_steps(len(dataset.train), budget.batch_size)

    def train(self, onlooker: Onlooker, stop: StopRequest, log: Callable[[Row], None]) -> None:
        """Until the budget is spent; the clock stands still while validation is scored."""
        steps, begin = iter(self._fit()), time.perf_counter()
        for progress in steps:
            self.standing.seconds += time.perf_counter() - begin
            onlooker.step(progress, self.steps, self._spent())
            # A run whose seconds are over is judged where it stands, in the middle of an epoch too.
            if progress.step == self.steps or self._is_over():
                row = self._look()
                log(row)
                onlooker.epoch(row, self.steps, self._spent())
            if self._is_over():
                return
            if stop:
                raise Stopped(f"stopped by {stop.signal}; the same command begins this run anew")
            begin = time.perf_counter()

    def judge(self) -> dict[str, Any]:
        """The scores of the epoch that did best on validation, and what the aggregator does."""
        metric, device = self.dataset.question.metric, self.world.device
        assert self.standing.best_state is not None
        self.model.load_state_dict(self.standing.best_state)
        scores = {f"{metric}@{name}": self._score(name) for name in SPLITS}
        laws = self._violations(device)
        return {
            **scores,
            f"constant_{metric}": self.scoring.constant(self.dataset, "test"),
            "best_epoch": self.standing.best_epoch,
            "num_parameters": sum(p.numel() for p in self.model.parameters()),
            "seconds_per_epoch": self.standing.seconds / self.fraction_of_epochs(),
            **{f"law:{law}": value for law, value in laws.items()},
        }

    def step_memory(self) -> int:
        """The peak of one training step on the graphs with the most edges; learns nothing.

        It also makes whatever has to be compiled, so that no run is charged for it.
        """
        train = self.dataset.train
        largest = train.store.num_edges[train.graphs].argsort(descending=True)
        self.wrapped.train()
        with peak_memory(self.world.device) as peak:
            batch = train.take(largest[: self.budget.batch_size]).to(self.world.device)
            found = losses_of(self.wrapped, batch, self.scoring.loss)
            self.world.backward(found.total())
        self.optimizer.zero_grad()
        return peak.num_bytes

    def fraction_of_epochs(self) -> float:
        """Epochs that were trained, the last of them maybe in part."""
        return self.progress.epoch - 1 + self.progress.step / self.steps

    def _fit(self) -> Any:
        return fit(
            self.world,
            self.wrapped,
            self.wrapped_optimizer,
            None,
            self.dataset.train,
            self.scoring.loss,
            batch_size=self.budget.batch_size,
            clip_norm=self.budget.clip_norm,
            seed=self.seed,
            progress=self.progress,
        )

    def _spent(self) -> float:
        """The share of the budget that is used up."""
        if self.budget.seconds is not None:
            return min(1.0, self.standing.seconds / self.budget.seconds)
        return self.fraction_of_epochs() / (self.budget.epochs or 1)

    def _is_over(self) -> bool:
        return self._spent() >= 1

    def _look(self) -> Row:
        standing, score = self.standing, self._score("val")
        highest = self.dataset.question.highest
        if standing.best is None or (score > standing.best if highest else score < standing.best):
            standing.best, standing.best_epoch = score, self.progress.epoch
            standing.best_state = copy.deepcopy(self.model.state_dict())
        return {
            "epoch": self.progress.epoch,
            "seconds": round(standing.seconds, 4),
            "train_loss": self.progress.means()["loss"],
            f"validation_{self.dataset.question.metric}": score,
        }

    def _score(self, split: str) -> float:
        data, size = self.dataset.splits[split], self.budget.batch_size
        return self.scoring.score(self.wrapped, data, size, self.world.device)

    @torch.no_grad()
    def _violations(self, device: torch.device) -> dict[str, float]:
        """The mean over layers of each law's relative violation."""
        batch: AskedBatch = some_examples(self.dataset.splits["val"], device)
        model: SmallGNN = self.model.eval()
        found = [violations_on(*folded) for folded in model.folded(batch.graphs)]
        return {law: sum(each[law] for each in found) / len(found) for law in found[0]}
