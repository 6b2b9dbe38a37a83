"""Tables folded by trained models, on Ray: needs the extra `ray`, and imports it when used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treefold.tables.aggregate import MonoidAggregate
    from treefold.tables.loading import fold_of, load_fold
    from treefold.tables.model_fold import ModelFold
    from treefold.tables.parquet import FoldSummary, fold_table, on_ray
    from treefold.tables.spread import TableSpread, table_spread

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
        raise AttributeError(f"module 'treefold.tables' has no attribute {name!r}")
    try:
        module = import_module(f"treefold.tables.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow"):
            raise
        raise ModuleNotFoundError(
            f"treefold.tables.{name} needs {error.name}; pip install 'treefold[train,ray]'",
            name=error.name,
        ) from None
    return getattr(module, name)
