"""How long a large table would take on many workers: a calculation, and a simulation to check it.

Three things cost: folding rows to partial states where they lie, moving those states to where their
key is merged, and merging them. The calculation divides all work evenly; the simulation hands out
tasks one by one, some slower than others, and draws where keys go.
"""

import heapq
import random
from dataclasses import dataclass
from math import exp, expm1, log1p


@dataclass(frozen=True)
class Costs:
    """What was measured on one core."""

    rows_per_second: float
    """Folded to partial states, one core."""
    seconds_per_merge: float
    """To take in one partial state of one key, all of the engine's work included, one core."""
    bytes_per_second: float
    """Of shuffled states, per worker."""
    spread: float = 0.2
    """Of the logarithm of task times: machines differ, and disks wait."""


@dataclass(frozen=True)
class Workload:
    """What there is to do, and who does it; a worker is a core."""

    num_rows: float
    num_keys: int
    num_workers: int
    channels: int = 128
    rows_per_task: int = 1_000_000
    rows_per_batch: int = 65_536
    """A key gets a partial state for each batch of a task that it occurs in."""
    hot_share: float = 0.0
    """The share of all rows that have one and the same key."""

    @property
    def num_tasks(self) -> int:
        """Tasks in which rows are read and folded."""
        return max(1, round(self.num_rows / self.rows_per_task))

    @property
    def batches_per_task(self) -> float:
        """How many times a task makes partial states."""
        return max(1.0, self.rows_per_task / self.rows_per_batch)

    @property
    def states_per_task(self) -> float:
        """Different keys in a batch, expected, times batches: each gives a partial state."""
        rows = min(self.rows_per_batch, self.rows_per_task) * (1 - self.hot_share)
        keys = self.num_keys
        others = -keys * expm1(rows * log1p(-1 / keys)) if keys > 1 else 1
        return self.batches_per_task * (others + (self.hot_share > 0))

    @property
    def state_bytes(self) -> float:
        """Bytes of a partial state: float32, with its key and count."""
        return 4.0 * self.channels + 24


@dataclass(frozen=True)
class Duration:
    """Seconds for each phase; they follow one another."""

    fold: float
    shuffle: float
    merge: float

    @property
    def total(self) -> float:
        """All three."""
        return self.fold + self.shuffle + self.merge


def calculate(costs: Costs, work: Workload) -> Duration:
    """All work divided evenly; the states of one key are merged by one worker."""
    states = work.num_tasks * work.states_per_task
    num_merging = min(work.num_workers, work.num_keys + (work.hot_share > 0))
    merges = states * costs.seconds_per_merge / num_merging
    most = work.num_tasks * work.batches_per_task if work.hot_share else 0.0
    return Duration(
        fold=work.num_rows / costs.rows_per_second / work.num_workers,
        shuffle=states * work.state_bytes / costs.bytes_per_second / work.num_workers,
        merge=max(merges, most * costs.seconds_per_merge),
    )


def simulate(costs: Costs, work: Workload, seed: int = 0) -> Duration:
    """The same job, task by task: workers take the next task when they are free."""
    draw = random.Random(seed)
    times = [
        work.num_rows / work.num_tasks / costs.rows_per_second * _slowness(costs, draw)
        for _ in range(work.num_tasks)
    ]
    fold, done = _hand_out(times, work.num_workers)
    per_task = work.states_per_task * work.state_bytes
    shuffle = max(done) * per_task / costs.bytes_per_second  # the busiest worker sends the most
    states = work.num_tasks * work.states_per_task
    num_parts = min(4 * work.num_workers, work.num_keys)
    merges = [
        max(0.0, draw.gauss(states / num_parts, (states / num_parts) ** 0.5))
        for _ in range(num_parts)
    ]
    if work.hot_share:
        merges[0] += work.num_tasks * work.batches_per_task
    merge, _ = _hand_out(
        [count * costs.seconds_per_merge * _slowness(costs, draw) for count in merges],
        work.num_workers,
    )
    return Duration(fold, shuffle, merge)


def _hand_out(times: list[float], num_workers: int) -> tuple[float, list[int]]:
    """When the last worker is done, and how many tasks each has had."""
    free = [(0.0, worker) for worker in range(num_workers)]
    done = [0] * num_workers
    for seconds in times:
        begin, worker = heapq.heappop(free)
        done[worker] += 1
        heapq.heappush(free, (begin + seconds, worker))
    return max(free)[0], done


def _slowness(costs: Costs, draw: random.Random) -> float:
    """A factor of mean 1."""
    return exp(draw.gauss(-(costs.spread**2) / 2, costs.spread))
