"""Tasks: data, answers, and the exact monoids that give them.

Two kinds of graphs are packages of their own: the multi-task benchmark, `treefold.lab.tasks.multitask`,
and molecules and images, `treefold.lab.tasks.realworld`.
"""

from treefold.lab.tasks.bits import from_bits, to_bits
from treefold.lab.tasks.set_data import SetData
from treefold.lab.tasks.set_task import SetTask
from treefold.lab.tasks.set_tasks import (
    SET_TASKS,
    CountOdd,
    KthSmallest,
    MostFrequent,
    SumParity,
    Xor,
)

__all__ = [
    "SET_TASKS",
    "CountOdd",
    "KthSmallest",
    "MostFrequent",
    "SetData",
    "SetTask",
    "SumParity",
    "Xor",
    "from_bits",
    "to_bits",
]
