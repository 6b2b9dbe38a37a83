"""Comparisons: the aggregators of the registry on somebody's own graphs, with equal budgets."""

from treefold.lab.compare.advice import pick
from treefold.lab.compare.collected import Collected, collect, collect_splits
from treefold.lab.compare.compare import Compared, Listener, compare
from treefold.lab.compare.dataset import Dataset, dataset_of, load_dataset
from treefold.lab.compare.network import SmallGNN
from treefold.lab.compare.page import write_page
from treefold.lab.compare.plan import Budget, Plan, Size
from treefold.lab.compare.problem import Question

__all__ = [
    "Budget",
    "Collected",
    "Compared",
    "Dataset",
    "Listener",
    "Plan",
    "Question",
    "Size",
    "SmallGNN",
    "collect",
    "collect_splits",
    "compare",
    "dataset_of",
    "load_dataset",
    "pick",
    "write_page",
]
