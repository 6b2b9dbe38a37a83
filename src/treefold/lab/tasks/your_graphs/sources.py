"""Datasets by name, from a folder and without unpickling: our tasks, and TU text files."""

import dataclasses
from pathlib import Path

import torch
from torch.nn import functional as F
from torch_geometric.io import read_tu_data

from treefold.lab.tasks import GRAPH_TASKS, SPLITS, GraphStore, GraphTask, built_task, data_folder
from treefold.lab.tasks.your_graphs.collected import Collected
from treefold.lab.tasks.your_graphs.python_file import read_python_file


def read_dataset(dataset: str, data: Path | None = None) -> tuple[str, Collected]:
    """A name for the dataset, and its graphs.

    `dataset` is a Python file, one of our tasks (zinc, molhiv, mnist, cifar10), or the name of a
    TU dataset, whose text files `NAME_A.txt` and so on lie in `NAME` or `NAME/raw` below `data`.
    """
    if dataset.endswith(".py"):
        if data is not None:
            raise ValueError(f"--data is for named datasets, and {dataset} is a file; leave it out")
        return Path(dataset).stem, read_python_file(Path(dataset))
    if dataset in GRAPH_TASKS:
        return dataset, read_task(built_task(dataset, data), data)
    folder = data_folder(data)
    for place in (folder / dataset / "raw", folder / dataset):
        if (place / f"{dataset}_A.txt").is_file():
            return dataset, read_tu(place, dataset)
    raise ValueError(
        f"{dataset!r} is no Python file and no dataset of {', '.join(GRAPH_TASKS)}, and "
        f"{folder / dataset} has no {dataset}_A.txt of a TU dataset; give its folder with --data, "
        "or a file such as mine.py with a function dataset() that returns a PyG dataset"
    )


def read_task(task: GraphTask, data: Path | None = None) -> Collected:
    """The graphs of one of our tasks, in its own splits."""
    stores = [task.split(name, data) for name in SPLITS]
    joined = _joined(stores)
    sizes = [len(store) for store in stores]
    numbers = torch.arange(sum(sizes)).split(sizes)
    y = joined.y.long() if task.metric == "roc-auc" else joined.y
    return Collected(
        x=joined.x.float() if joined.x.is_floating_point() else joined.x.long(),
        edge_index=joined.edge_index.long(),
        edge_attr=joined.edge_attr.float()
        if joined.edge_attr.is_floating_point()
        else joined.edge_attr.long(),
        y=y,
        sizes=joined.sizes,
        num_edges=joined.num_edges,
        num_answers=torch.ones_like(joined.sizes),
        graphs=dict(zip(SPLITS, numbers, strict=True)),
    )


def _joined(stores: list[GraphStore]) -> GraphStore:
    names = [field.name for field in dataclasses.fields(GraphStore)]
    axes = {name: 1 if name == "edge_index" else 0 for name in names}
    return GraphStore(
        **{name: torch.cat([getattr(s, name) for s in stores], axes[name]) for name in names}
    )


def read_tu(folder: Path, name: str) -> Collected:
    """A dataset of TU Dortmund from its text files."""
    try:
        graphs, slices, _ = read_tu_data(str(folder), name)
    except (ValueError, OSError, IndexError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"the files {name}_*.txt in {folder} cannot be read: {reason}") from error
    if graphs.y is None:
        raise ValueError(
            f"{folder} has neither {name}_graph_labels.txt nor {name}_graph_attributes.txt; "
            "expected the graphs' classes or numbers"
        )
    sizes = slices["x"].diff() if "x" in slices else torch.as_tensor(graphs._num_nodes)
    num_edges = slices["edge_index"].diff()
    return Collected(
        x=graphs.x,
        edge_index=graphs.edge_index,
        edge_attr=graphs.edge_attr,
        y=graphs.y,
        sizes=sizes,
        # PyG does not count graphs without edges at the end.
        num_edges=F.pad(num_edges, (0, len(sizes) - len(num_edges))),
        num_answers=torch.ones(len(sizes), dtype=torch.int64),
    )
