"""Comparisons: the aggregators of the registry on somebody's own graphs, with equal budgets."""

from treefold.comparing.collected import Collected, collect, collect_splits
from treefold.comparing.compare import Compared, Listener, compare
from treefold.comparing.dataset import Dataset, dataset_of, load_dataset
from treefold.comparing.network import SmallGNN
from treefold.comparing.plan import Budget, Plan, Size
from treefold.comparing.question import Question

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
]
