"""Learned operators: one file each, and a line in `OPERATORS`."""

from collections.abc import Callable

from treefold.operators.bijection import CouplingFlow
from treefold.operators.binary_gru import BinaryGRU
from treefold.operators.binary_mlp import BinaryMLP
from treefold.operators.conjugated import Conjugated
from treefold.operators.finite_counters import FiniteCounters
from treefold.operators.finite_selection import FiniteSelection
from treefold.operators.gated_selection import GatedSelection
from treefold.operators.operator import Operator
from treefold.operators.recurrent import RecurrentCell, RecurrentGRU, RecurrentLSTM
from treefold.operators.symmetrized import Symmetrized

OPERATORS: dict[str, Callable[..., Operator]] = {
    "binary-gru": BinaryGRU,
    "binary-mlp": BinaryMLP,
    "gated-selection": GatedSelection,
    "finite-selection": FiniteSelection,
    "finite-counters": FiniteCounters,
    "conjugated-sum": Conjugated.sum,
    "conjugated-max": Conjugated.max,
}
"""By name: `OPERATORS[name](channels, **options)`."""

CELLS: dict[str, Callable[..., RecurrentCell]] = {"gru": RecurrentGRU, "lstm": RecurrentLSTM}
"""Recurrent cells by name."""

__all__ = [
    "CELLS",
    "OPERATORS",
    "BinaryGRU",
    "BinaryMLP",
    "Conjugated",
    "CouplingFlow",
    "FiniteCounters",
    "FiniteSelection",
    "GatedSelection",
    "Operator",
    "RecurrentCell",
    "RecurrentGRU",
    "RecurrentLSTM",
    "Symmetrized",
]
