"""Benchmarks of real graphs: molecules and superpixels, from the official files."""

from treefold.lab.tasks.realworld.download import DownloadError
from treefold.lab.tasks.realworld.fetching import Fetched, fetch
from treefold.lab.tasks.realworld.folders import MissingData, data_folder
from treefold.lab.tasks.realworld.graphs import GraphBatch, GraphStore, average_log_degree
from treefold.lab.tasks.realworld.inputs import Categories, Numbers
from treefold.lab.tasks.realworld.official import differences_from_official
from treefold.lab.tasks.realworld.plain_pickle import RefusedFile
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.tasks import CIFAR10, GRAPH_TASKS, MNIST, ZINC, MolHIV

__all__ = [
    "CIFAR10",
    "GRAPH_TASKS",
    "MNIST",
    "ZINC",
    "Categories",
    "DownloadError",
    "Fetched",
    "GraphBatch",
    "GraphStore",
    "GraphTask",
    "MissingData",
    "MolHIV",
    "Numbers",
    "RefusedFile",
    "average_log_degree",
    "data_folder",
    "differences_from_official",
    "fetch",
]
