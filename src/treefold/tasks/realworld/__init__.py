"""Benchmarks of real graphs: molecules and superpixels, from the official files."""

from treefold.tasks.realworld.download import DownloadError
from treefold.tasks.realworld.fetching import Fetched, fetch
from treefold.tasks.realworld.folders import MissingData, data_folder
from treefold.tasks.realworld.graphs import GraphBatch, GraphStore, average_log_degree
from treefold.tasks.realworld.inputs import Categories, Numbers
from treefold.tasks.realworld.official import differences_from_official
from treefold.tasks.realworld.plain_pickle import RefusedFile
from treefold.tasks.realworld.task import GraphTask
from treefold.tasks.realworld.tasks import CIFAR10, GRAPH_TASKS, MNIST, ZINC, MolHIV

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
