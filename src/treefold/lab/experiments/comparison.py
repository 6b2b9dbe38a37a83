"""Comparisons: aggregators on somebody's own graphs, each with every seed a run of the engine."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treefold.aggr import AGGREGATORS
from treefold.atomic import check_writable
from treefold.lab.experiments.loading import experiment_of
from treefold.lab.experiments.recipe import (
    AggregatorChoice,
    Experiment,
    GraphEvaluation,
    SmallModel,
    Training,
)
from treefold.lab.experiments.running import run
from treefold.lab.experiments.trainer import Watcher
from treefold.lab.experiments.your_graphs import YourGraphsRunner
from treefold.lab.runs import (
    NonFinite,
    Record,
    StopRequest,
    World,
    as_json,
    sound_record,
    stop_on_signals,
)
from treefold.lab.tasks import SPLITS, Dataset, YourGraphs
from treefold.names import require_one_of

EPOCHS = 30


@dataclass(frozen=True)
class Budget:
    """The training of every run: so many epochs, or so many seconds of training."""

    epochs: int | None = EPOCHS
    seconds: float | None = None
    batch_size: int = 64
    """Graphs at once; a single graph is always taken whole."""
    learning_rate: float = 3e-3
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.seconds is None):
            raise ValueError("give either epochs or seconds, as all runs get the same")
        _ = self.training

    def __str__(self) -> str:
        if self.epochs is None:
            return f"{self.seconds:.3g} seconds"
        return "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"

    @classmethod
    def of(
        cls, epochs: int | None, seconds: float | None, minutes: float | None, num_runs: int
    ) -> "Budget":
        """Arguments as given: one of these, or nothing; minutes are for all runs together."""
        given = [each for each in (epochs, seconds, minutes) if each is not None]
        if len(given) > 1:
            raise ValueError(
                "give one of epochs, seconds and minutes, so that all runs get the same"
            )
        if minutes is not None:
            if not minutes > 0:
                raise ValueError(f"{minutes:g} minutes; expected more than 0")
            seconds = 60 * minutes / max(num_runs, 1)
        return cls(EPOCHS if not given else epochs, seconds)

    @property
    def training(self) -> Training:
        """As a part of a recipe."""
        return Training(**vars(self))


@dataclass(frozen=True)
class Plan:
    """A comparison, before it is run."""

    aggregators: tuple[str, ...] = tuple(AGGREGATORS)
    num_seeds: int = 3
    budget: Budget = Budget()
    model: SmallModel = field(default_factory=SmallModel)

    def __post_init__(self) -> None:
        if not self.aggregators:
            raise ValueError("no aggregators are given; name one or more, with commas")
        for name in self.aggregators:
            require_one_of(AGGREGATORS, name, "aggregator")
        if len(set(self.aggregators)) < len(self.aggregators):
            raise ValueError(f"an aggregator is named twice in {', '.join(self.aggregators)}")
        if self.num_seeds < 1:
            raise ValueError(f"{self.num_seeds} seeds; expected 1 or more")

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Aggregators with seeds; all aggregators get their first seed before any its second."""
        for seed in range(self.num_seeds):
            for name in self.aggregators:
                yield name, seed

    def experiment(self, name: str, task: YourGraphs) -> Experiment:
        """The experiment of an aggregator."""
        return Experiment(
            name=f"{task.facts['name']}/{name}",
            task=task,
            aggregator=AggregatorChoice(name),
            training=self.budget.training,
            evaluation=GraphEvaluation(SPLITS, self.budget.batch_size),
            model=self.model,
        )


def parse_aggregators(names: str | None) -> tuple[str, ...]:
    """Names with commas; all of the registry if none are given."""
    if names is None:
        return tuple(AGGREGATORS)
    return tuple(name.strip() for name in names.split(",") if name.strip())


@dataclass(frozen=True)
class Listener:
    """Callbacks for whoever watches: asked for a watcher of each run, and called at its end."""

    begins: Callable[[Experiment, int], Watcher] = lambda experiment, seed: Watcher()
    ends: Callable[[Experiment, int, Record], None] = lambda experiment, seed, record: None


@dataclass(frozen=True)
class Compared:
    """The runs of a comparison, as numbers and by name."""

    num_runs: int
    num_skipped: int
    """Finished before."""
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """One run of a comparison."""

    experiment: Experiment
    seed: int
    folder: Path


def compare(
    dataset: Dataset,
    plan: Plan,
    out: Path,
    world: World | None = None,
    listener: Listener | None = None,
) -> Compared:
    """Make every run of the plan that is not finished in `out`; on the CPU if no `world` is given.

    A run whose numbers stop being finite, or that runs out of memory, is recorded as failed, and
    the others are made. A run that was stopped is resumed by the next call.
    """
    world, listener = world or World(), listener or Listener()
    check_writable(out)
    task = YourGraphs.of(dataset)
    jobs = [
        Job(plan.experiment(name, task), seed, out / name / f"seed-{seed}")
        for name, seed in plan.pairs()
    ]
    left = [found for job in jobs if (found := _left_to_do(job))]
    failed = []
    with stop_on_signals() as stop:
        for job in left:
            record = _run(dataset, str(plan.budget), job, world, listener, stop)
            listener.ends(job.experiment, job.seed, record)
            if record.status != "finished":
                failed.append(f"{job.experiment.aggregator.name} with seed {job.seed}")
    return Compared(len(jobs), len(jobs) - len(left), tuple(failed))


def _left_to_do(job: Job) -> Job | None:
    """The job, if it is not finished; another run in its place is found before any work."""
    found = sound_record(job.folder)
    if found is None:
        return job
    if "dataset" in found.recipe:
        raise ValueError(
            f"{job.folder} holds a run of an earlier treefold, without checkpoints to resume from; "
            "give another --out (its comparison.html stays as it is), or remove that folder"
        )
    wanted, there = (_identity(recipe) for recipe in (job.experiment.recipe(), found.recipe))
    if differing := [part for part in wanted if there.get(part) != wanted[part]]:
        hint = "; dataset() must give the same data each time: seed what it draws"
        raise ValueError(
            f"{job.folder} holds a run with another {' and '.join(differing)}; give another --out, "
            f"or remove that folder{hint if 'dataset' in differing else ''}"
        )
    if found.status == "finished":
        return None
    # The same graphs may have been named in other words, such as another path.
    return dataclasses.replace(job, experiment=experiment_of(found))


def _identity(recipe: dict[str, Any]) -> dict[str, Any]:
    """The parts of a recipe that make two runs the same, whatever the graphs' file is called."""
    plain = as_json(recipe)
    shared = {part: plain.get(part) for part in ("aggregator", "model", "training")}
    return {"dataset": plain["task"].get("facts"), **shared}


def _run(
    dataset: Dataset, preset: str, job: Job, world: World, listener: Listener, stop: StopRequest
) -> Record:
    try:
        return run(
            job.experiment,
            preset=preset,
            seed=job.seed,
            folder=job.folder,
            world=world,
            watcher=listener.begins(job.experiment, job.seed),
            stop=stop,
            runner=YourGraphsRunner(job.experiment, job.seed, dataset),
        )
    except (NonFinite, MemoryError):
        return Record.read(job.folder)
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        return Record.read(job.folder)
