"""Finite operators that are right, and some that are wrong in a known way."""

import torch

from treefold.finite import close
from treefold.lab.tasks import SET_TASKS

SECOND = SET_TASKS["second-minimum"](bits=3)
COUNT = SET_TASKS["count-modulo"](bits=2)
XOR = SET_TASKS["xor"](bits=3)
TASKS = [SECOND, COUNT, XOR, SET_TASKS["parity"](bits=2)]


def closed(task, **options):
    """The closure of the task's own monoid, with its answers."""
    values = torch.arange(task.num_values)
    finite = close(task.monoid, task.encode(values), **options)
    return finite.answering(task.answer)


class Table:
    """An operator on numbered states, by a table; the identity is -1, which is none of them."""

    identity = torch.tensor(-1)

    def __init__(self, table):
        self.table = torch.tensor(table)

    def __call__(self, a, b):
        return self.table[a, b]


# Rock beats scissors: commutative, and the winner of three depends on who plays first.
ROCK_PAPER_SCISSORS = Table([[0, 1, 0], [1, 1, 2], [0, 2, 2]])
# Every list ends in its last value.
LAST = Table([[0, 1], [0, 1]])


class Spoiled:
    """Modulo-5 addition with one product wrong that no list from the left ever asks for."""

    identity = torch.tensor(0)

    def __call__(self, a, b):
        wrong = (a == 3) & (b == 3)
        return torch.where(wrong, 0, (a + b) % 5)
