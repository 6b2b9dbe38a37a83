"""A whole comparison: every pair of aggregator and seed that is not done yet, and its record."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treefold.atomic import check_writable
from treefold.lab.compare.dataset import Dataset
from treefold.lab.compare.plan import Plan
from treefold.lab.compare.run import Onlooker, Run
from treefold.lab.runs import (
    LOG_FILE,
    MetricsLog,
    NonFinite,
    Record,
    Stopped,
    World,
    as_json,
    found_record,
    stop_on_signals,
)


@dataclass(frozen=True)
class Listener:
    """Who hears of runs: asked for an onlooker at the start of each, told of its end."""

    begins: Callable[[str, int], Onlooker] = lambda name, seed: Onlooker()
    ends: Callable[[str, int, Record], None] = lambda name, seed, record: None


@dataclass(frozen=True)
class Compared:
    """What came of a comparison."""

    num_runs: int
    num_skipped: int
    """Finished before."""
    failed: tuple[str, ...]


def compare(
    dataset: Dataset,
    plan: Plan,
    out: Path,
    world: World | None = None,
    listener: Listener | None = None,
) -> Compared:
    """Make every run of the plan that is not finished in `out`; on the CPU if no `world` is given.

    A run whose numbers stop being finite, or that runs out of memory, is recorded as failed and the
    others go on; a run that was stopped is begun anew by the next call.
    """
    world, listener = world or World(), listener or Listener()
    check_writable(out)
    facts = dataset.facts()
    jobs = [(name, seed, out / name / f"seed-{seed}") for name, seed in plan.pairs()]
    left = [job for job in jobs if not _is_finished(job[2], plan.recipe(job[0], facts))]
    failed = []
    for name, seed, folder in left:
        record = _run(dataset, plan, name, seed, folder, world, listener, facts)
        listener.ends(name, seed, record)
        if record.status != "finished":
            failed.append(f"{name} with seed {seed}")
    return Compared(len(jobs), len(jobs) - len(left), tuple(failed))


def _is_finished(folder: Path, recipe: dict[str, Any]) -> bool:
    """Whether the run is there; another recipe in its place is a mistake, found before any work."""
    found = found_record(folder)
    if found is None:
        return False
    wanted = as_json(recipe)
    if found.recipe != wanted:
        differing = [part for part in wanted if found.recipe.get(part) != wanted[part]]
        drawn = "; dataset() must give the same data each time: seed what it draws"
        raise ValueError(
            f"{folder} holds a run with another {' and '.join(differing)}; give another --out, or "
            f"remove that folder{drawn if 'dataset' in differing else ''}"
        )
    return found.status == "finished"


def _run(
    dataset: Dataset,
    plan: Plan,
    name: str,
    seed: int,
    folder: Path,
    world: World,
    listener: Listener,
    facts: dict[str, Any],
) -> Record:
    check_writable(folder)
    (folder / LOG_FILE).unlink(missing_ok=True)  # of an earlier attempt
    recipe = plan.recipe(name, facts)
    record = Record.begun(f"{dataset.name}/{name}", str(plan.budget), seed, recipe)
    record.write(folder)
    onlooker, log = listener.begins(name, seed), MetricsLog(folder)
    run = Run(dataset, name, seed, plan.budget, plan.size, world)

    def closed(status: Any, error: str | None = None, **metrics: Any) -> Record:
        done = dataclasses.replace(
            record,
            status=status,
            error=error,
            seconds=run.standing.seconds,
            epochs=len(MetricsLog.read(folder)),
            metrics=metrics,
        )
        done.write(folder)
        return done

    try:
        memory = run.step_memory()
        with stop_on_signals() as stop:
            run.train(onlooker, stop, log.append)
        return closed("finished", **run.judge(), step_memory=memory)
    except Stopped as stopped:
        closed("stopped", str(stopped))
        raise
    except (NonFinite, MemoryError) as error:
        return closed("failed", str(error) or "out of memory")
    except RuntimeError as error:
        if "memory" not in str(error):
            closed("failed", str(error))
            raise
        return closed("failed", " ".join(str(error).split())[:300])
