"""Tables folded by trained models, on Ray: needs the extra `ray`, and imports it when used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treefold.distributed.aggregate import MonoidAggregate
    from treefold.lab.experiments.table_fold import fold_of, load_fold
    from treefold.distributed.model_fold import ModelFold
    from treefold.distributed.parquet import FoldSummary, fold_table, on_ray
    from treefold.distributed.table_stability import TableSpread, table_spread

__all__ = [
    "FoldSummary",
    "ModelFold",
    "MonoidAggregate",
    "TableSpread",
    "fold_of",
    "fold_table",
    "load_fold",
    "on_ray",
    "table_spread",
]

_MODULES = {
    "FoldSummary": "parquet",
    "ModelFold": "model_fold",
    "MonoidAggregate": "aggregate",
    "TableSpread": "spread",
    "fold_of": "loading",
    "fold_table": "parquet",
    "load_fold": "loading",
    "on_ray": "parquet",
    "table_spread": "spread",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'treefold.distributed' has no attribute {name!r}")
    try:
        module = import_module(f"treefold.distributed.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow"):
            raise
        raise ModuleNotFoundError(
            f"treefold.distributed.{name} needs {error.name}; pip install 'treefold[train,ray]'",
            name=error.name,
        ) from None
    return getattr(module, name)
