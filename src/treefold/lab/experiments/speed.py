"""Time per epoch against set size (fig:2min_speedtest): a part of an epoch is run, and scaled."""

import dataclasses
import time
from typing import Any

import torch

from treefold.lab.experiments.build import build_model, build_optimizer, build_schedule
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.machine import as_override
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.experiments.set_runner import loss_and_correct
from treefold.lab.runs import Progress, Record, World, fit, num_steps


def seconds_per_epoch(
    experiment: Experiment, size: int, fraction: float, repeats: int, world: World
) -> list[float]:
    """Seconds for an epoch of sets of `size`, from `repeats` timings of a fraction of one."""
    task, training = experiment.task, experiment.training
    steps = num_steps(task.num_train, training.batch_size)
    timed = max(1, round(steps * fraction))
    run = 1 + timed * repeats  # the first step warms up
    part = dataclasses.replace(task, num_evaluation=run * training.batch_size)
    data = part.evaluation(size, seed=0)
    torch.manual_seed(0)
    model = build_model(runner_of(experiment, seed=0))
    optimizer = build_optimizer(model, training, world.device)
    schedule = build_schedule(optimizer, training, max(steps, run))
    wrapped, wrapped_optimizer = world.wrap(model, optimizer)
    loop = fit(
        world,
        wrapped,
        wrapped_optimizer,
        schedule,
        data,
        loss_and_correct,
        batch_size=training.batch_size,
        clip_norm=training.clip_norm,
        seed=0,
        progress=Progress(),
    )
    next(loop)
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(timed):
            next(loop)
        found.append((time.perf_counter() - begin) * steps / timed)
    return found


def time_experiment(
    experiment: Experiment,
    preset: str,
    overrides: dict[str, Any],
    sizes: tuple[int, ...],
    fraction: float,
    world: World,
    repeats: int = 3,
) -> Record:
    """Time every size of an experiment: the record `set-speed/<row>`, still to be written."""
    row = experiment.name.partition("/")[2]
    experiment = dataclasses.replace(experiment, name=f"set-speed/{row}")
    record = Record.begun(experiment.name, preset, 0, experiment.recipe())
    begin = time.monotonic()
    by_size = {
        str(size): seconds_per_epoch(experiment, size, fraction, repeats, world) for size in sizes
    }
    return dataclasses.replace(
        record,
        overrides={**overrides, **as_override(world.described())},
        reported={name: dataclasses.asdict(n) for name, n in experiment.reported.items()},
        hardware={**record.hardware, "threads": torch.get_num_threads()},
        machine=world.described(),
        seconds=time.monotonic() - begin,
        status="finished",
        departures=[
            f"{fraction:.1%} of an epoch was run, {repeats} times, and scaled",
            *experiment.departures,
        ],
        metrics={"seconds_per_epoch_by_size": by_size},
    )
