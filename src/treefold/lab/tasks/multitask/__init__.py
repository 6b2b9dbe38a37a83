"""The PNA multi-task benchmark as a task; needs networkx, which other tasks do not."""

from treefold.lab.tasks.multitask.assembly import label_graph
from treefold.lab.tasks.multitask.baseline import (
    DegreeAverages,
    constant_baseline,
    degree_averages,
    target_maxima,
    target_means,
)
from treefold.lab.tasks.multitask.families import FAMILIES
from treefold.lab.tasks.multitask.graph_data import TARGETS, GraphData, LabelledGraph
from treefold.lab.tasks.multitask.pyg import MultiTaskGraph, to_pyg
from treefold.lab.tasks.multitask.scores import Scores, score
from treefold.lab.tasks.multitask.task import MultiTask
from treefold.lab.tasks.multitask.variants import EXTRAPOLATION_SIZES, VARIANTS

__all__ = [
    "EXTRAPOLATION_SIZES",
    "FAMILIES",
    "TARGETS",
    "VARIANTS",
    "DegreeAverages",
    "GraphData",
    "LabelledGraph",
    "MultiTask",
    "MultiTaskGraph",
    "Scores",
    "constant_baseline",
    "degree_averages",
    "label_graph",
    "score",
    "target_maxima",
    "target_means",
    "to_pyg",
]
