"""A dataset from a Python file: the file is run, and its function `dataset()` is asked for it."""

import importlib.util
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from treefold.lab.tasks import SPLITS
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
