"""Multisets whose answers are balanced: guessing gains nothing.

Uniform integers make some answers common: of 1,000 integers from 0..255, the second smallest is
nearly always 0, and a network that always answers 0 seems to be right.
"""

import torch
from torch import Tensor

from treefold.lab.tasks.set_data import SetData
from treefold.lab.tasks.set_task import SetTask

SETS_PER_ROUND = 4_096
MAX_ROUNDS = 100


def planted_kth_smallest(
    num_sets: int, size: int, num_values: int, k: int, generator: torch.Generator
) -> Tensor:
    """`[num_sets, size]` integers, the k-th smallest of each row drawn uniformly.

    Given the answer t, k - 1 integers are uniform in 0..t, one is t, and the others are uniform in
    t..num_values - 1; then they are shuffled. Rows of fewer than k are uniform.
    """
    if size < k:
        return torch.randint(0, num_values, (num_sets, size), generator=generator)
    answer = torch.randint(0, num_values, (num_sets, 1), generator=generator)
    below = _uniform(num_sets, k - 1, answer + 1, generator)
    above = answer + _uniform(num_sets, size - k, num_values - answer, generator)
    values = torch.cat([below, answer, above], 1)
    order = torch.rand(num_sets, size, generator=generator).argsort(1)
    return values.gather(1, order)


def picked_evenly(task: SetTask, size: int, generator: torch.Generator) -> SetData:
    """Uniform sets of one size, picked to make all answers equally frequent.

    For tasks all of whose answers occur among uniform sets; one that hardly ever does makes this
    give up with an error.
    """
    num_answers, num_sets = 1 << task.answer_bits, task.num_evaluation
    shuffled = torch.randperm(num_answers, generator=generator)
    wanted = shuffled[torch.arange(num_sets) % num_answers].sort().values
    still = torch.bincount(wanted, minlength=num_answers)
    found: list[SetData] = []
    for _ in range(MAX_ROUNDS):
        sizes = torch.full((SETS_PER_ROUND,), size)
        drawn = task.label(
            torch.randint(0, task.num_values, (size * SETS_PER_ROUND,), generator=generator), sizes
        )
        kept = _first_of_each(drawn.answers, still)
        found.append(drawn.take(kept))
        still = still - torch.bincount(drawn.answers[kept], minlength=num_answers)
        if not still.any():
            return _joined(found).take(torch.randperm(num_sets, generator=generator))
    rare = still.nonzero().flatten().tolist()
    raise ValueError(
        f"the answers {rare} hardly ever occur in uniform sets of {size}; "
        "this task needs sets that are made for their answers"
    )


def _uniform(num_rows: int, num_columns: int, below: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform integers from 0 to `below` - 1, which differs from row to row."""
    share = torch.rand(num_rows, num_columns, generator=generator, dtype=torch.float64)
    return (share * below).long()


def _first_of_each(answers: Tensor, counts: Tensor) -> Tensor:
    """The places of the first `counts[a]` of each answer a."""
    order = answers.argsort(stable=True)
    num_each = torch.bincount(answers, minlength=counts.numel())
    starts = num_each.cumsum(0) - num_each
    rank = torch.arange(answers.numel()) - starts[answers[order]]
    return order[rank < counts[answers[order]]]


def _joined(parts: list[SetData]) -> SetData:
    return SetData(
        torch.cat([part.values for part in parts]),
        torch.cat([part.sizes for part in parts]),
        torch.cat([part.answers for part in parts]),
    )
