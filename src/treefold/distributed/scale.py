"""How long a large table would take on many workers: a calculation, and a simulation to check it.

Three things cost: folding rows to partial states where they lie, moving those states to where their
key is merged, and merging them. The calculation divides all work evenly. The simulation hands out
tasks one by one, some slower than others, draws where keys go and in which batches they occur, and
merges the states of each as `treefold.distributed.counter` does, level by level.
"""

import heapq
from dataclasses import dataclass
from math import ceil, expm1, log1p

import numpy as np

from treefold.distributed.limits import MOST_TASKS, ROWS_AT_ONCE, num_partitions

MOST_KEYS = 1 << 20
"""Keys that are simulated; where there are more, each stands for several."""


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
    rows_per_group: int = 1_000_000
    """Of a row group of the Parquet files."""
    rows_per_batch: int = ROWS_AT_ONCE
    """A key gets a partial state for each batch of a row group that it occurs in."""
    hot_share: float = 0.0
    """The share of all rows that have one and the same key."""

    @property
    def num_groups(self) -> int:
        """Row groups of the table."""
        return max(1, round(self.num_rows / self.rows_per_group))

    @property
    def num_tasks(self) -> int:
        """Tasks in which rows are read and folded, of one row group or of several."""
        return min(self.num_groups, MOST_TASKS)

    @property
    def num_batches(self) -> int:
        """How many times partial states are made."""
        return self.num_groups * ceil(self.rows_per_group / self.rows_per_batch)

    @property
    def num_partitions(self) -> int:
        """Parts into which keys are divided to be merged."""
        return num_partitions(self.num_workers, self.num_groups)

    @property
    def share_of_batches(self) -> float:
        """In how many of all batches a key occurs, expected; a hot one is in all."""
        rows = self.num_rows / self.num_batches * (1 - self.hot_share)
        return -expm1(rows * log1p(-1 / self.num_keys)) if self.num_keys > 1 else 1.0

    @property
    def num_states(self) -> float:
        """Partial states, expected: one for each key of each batch."""
        return self.num_batches * (self.num_keys * self.share_of_batches + (self.hot_share > 0))

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


@dataclass(frozen=True)
class Simulation:
    """What a simulated job took, and the trees it has made."""

    duration: Duration
    merges: tuple[float, ...]
    """Of all keys, by level: of two states of one batch each, of two batches each, of four, ..."""
    last_merges: float
    """Of what was left on different levels in the end."""
    depth: int
    """How many merges deep the deepest batch of all keys is."""


def calculate(costs: Costs, work: Workload) -> Duration:
    """All work divided evenly; the states of one key are merged by one worker."""
    num_folding = min(work.num_workers, work.num_tasks)
    num_merging = min(work.num_workers, work.num_partitions, work.num_keys + (work.hot_share > 0))
    merges = work.num_states * costs.seconds_per_merge / num_merging
    most = work.num_batches if work.hot_share else 0
    return Duration(
        fold=work.num_rows / costs.rows_per_second / num_folding,
        shuffle=work.num_states * work.state_bytes / costs.bytes_per_second / num_folding,
        merge=max(merges, most * costs.seconds_per_merge),
    )


def simulate(costs: Costs, work: Workload, seed: int = 0) -> Simulation:
    """The same job, task by task and key by key: workers take the next task when they are free."""
    draw = np.random.default_rng(seed)
    seconds = work.num_rows / work.num_tasks / costs.rows_per_second
    fold, done = _hand_out(seconds * _slowness(costs, work.num_tasks, draw), work.num_workers)
    per_task = work.num_states / work.num_tasks * work.state_bytes
    shuffle = max(done) * per_task / costs.bytes_per_second  # the busiest worker sends the most

    num_keys = min(work.num_keys, MOST_KEYS)
    stands_for = work.num_keys / num_keys
    arrivals = draw.binomial(work.num_batches, work.share_of_batches, num_keys)
    if work.hot_share:
        arrivals = np.append(arrivals, work.num_batches)
    partition = draw.integers(work.num_partitions, size=len(arrivals))
    merges = merges_by_level(arrivals)
    # The first state of a key meets nothing, but the engine takes it in as it does others.
    taken_in = sum(merges) + (arrivals > 0)
    load = np.bincount(partition, weights=taken_in, minlength=work.num_partitions) * stands_for
    slowness = _slowness(costs, work.num_partitions, draw)
    merge, _ = _hand_out(load * costs.seconds_per_merge * slowness, work.num_workers)
    *levels, last = (float(level.sum()) * stands_for for level in merges)
    return Simulation(
        Duration(fold, shuffle, merge), tuple(levels), last, int(counter_depth(arrivals).max())
    )


def merges_by_level(arrivals: np.ndarray) -> list[np.ndarray]:
    """Merges of each key's counter when so many states have come, by level.

    The last entry is those of what is left on different levels in the end.
    """
    merges = []
    left = arrivals
    digits = arrivals & 1
    while left.any():
        left = left >> 1  # two of a level make one of the next
        merges.append(left)
        digits = digits + (left & 1)
    return [*merges, np.maximum(digits - 1, 0)]


def counter_depth(arrivals: np.ndarray) -> np.ndarray:
    """The depth of each key's tree: digits are merged in the end, small ones first."""
    depth = np.full(len(arrivals), -1)  # nothing yet
    for level in range(int(arrivals.max(initial=0)).bit_length()):
        joined = np.where(depth < 0, level, np.maximum(depth, level) + 1)
        depth = np.where(arrivals >> level & 1, joined, depth)
    return depth.clip(min=0)


def _hand_out(times: np.ndarray, num_workers: int) -> tuple[float, list[int]]:
    """When the last worker is done, and how many tasks each has had."""
    num_workers = min(num_workers, len(times))
    free = [(0.0, worker) for worker in range(num_workers)]
    done = [0] * num_workers
    for seconds in times.tolist():
        begin, worker = heapq.heappop(free)
        done[worker] += 1
        heapq.heappush(free, (begin + seconds, worker))
    return max(free)[0], done


def _slowness(costs: Costs, count: int, draw: np.random.Generator) -> np.ndarray:
    """Factors of mean 1."""
    return draw.lognormal(-(costs.spread**2) / 2, costs.spread, count)
