"""Datasets by name, without unpickling, or from a Python file with a function `dataset()`."""

import dataclasses
import importlib.util
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.io import read_tu_data

from treefold.lab.tasks import GRAPH_TASKS, SPLITS, GraphStore, GraphTask, built_task, data_folder
from treefold.lab.tasks.your_graphs.collected import Collected, collect, collect_splits

FUNCTION = "dataset"
_MODULE = "treefold_compared_dataset"


def read_python_file(path: Path) -> Collected:
    """The graphs that the function `dataset()` of a file returns.

    It may return a PyG dataset, a list of graphs or one graph; or three of them, for train, val and
    test, as a tuple or by name. The file is run as a program of yours: run only what you trust.
    """
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give a Python file with a function {FUNCTION}()")
    function = getattr(_executed(path), FUNCTION, None)
    if not callable(function):
        raise ValueError(f"{path} has no function {FUNCTION}(); define one that returns a dataset")
    try:
        found = function()
    except Exception as error:
        raise ValueError(f"{FUNCTION}() in {_place(path, error)} raised {_words(error)}") from error
    try:
        return _collected(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _executed(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses in the file look themselves up there
    sys.path.insert(0, str(path.resolve().parent))  # as if it were run
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ValueError(f"{_place(path, error)} raised {_words(error)}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _collected(found: Any) -> Collected:
    splits = _as_splits(found)
    if splits is not None:
        return collect_splits({name: _graphs(part) for name, part in splits.items()})
    collected = collect(_graphs(found))
    index = getattr(found, "get_idx_split", None)  # OGB's way to name splits
    if not callable(index):
        return collected
    numbers = {"val" if name == "valid" else name: part for name, part in index().items()}
    return Collected(**{**vars(collected), "graphs": {name: numbers[name] for name in SPLITS}})


def _as_splits(found: Any) -> dict[str, Any] | None:
    if isinstance(found, Mapping) and not isinstance(found, Data):
        if set(found) != set(SPLITS):
            names = ", ".join(map(str, found))
            raise ValueError(f"{FUNCTION}() returned {names}; expected train, val and test")
        return dict(found)
    if isinstance(found, tuple):
        if len(found) != len(SPLITS):
            raise ValueError(
                f"{FUNCTION}() returned {len(found)} parts; expected three, for train, val, test"
            )
        return dict(zip(SPLITS, found, strict=True))
    return None


def _graphs(found: Any) -> Sequence[Any]:
    if isinstance(found, Data):
        return [found]
    try:
        return [found[number] for number in range(len(found))]
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError(
            f"{FUNCTION}() returned a {type(found).__name__}; expected a PyG dataset, a list of "
            "torch_geometric.data.Data or one of them"
        ) from None


def _place(path: Path, error: Exception) -> str:
    """The file, and the last of its lines that the error came through."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f"{path}, line {frames[-1].lineno}," if frames else f"{path}"


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


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
