"""Learned operators: one file each, and a line in `OPERATORS`."""

from collections.abc import Callable

from treefold.operators.bijection import CouplingFlow
from treefold.operators.binary_gru import BinaryGRU
from treefold.operators.binary_mlp import BinaryMLP
from treefold.operators.conjugated import Conjugated
from treefold.operators.engine.building import CannotBuild, compile_kernels
from treefold.operators.engine.operations import (
    kernels_in_use,
    limit_threads,
    release,
    reset_threads,
)
from treefold.operators.finite_counters import FiniteCounters, WholeCounters
from treefold.operators.finite_selection import FiniteSelection
from treefold.operators.gated_selection import GatedSelection
from treefold.operators.operator import Operator, reset_parts
from treefold.operators.recurrent import RecurrentCell, RecurrentGRU, RecurrentLSTM
from treefold.operators.symmetrized import Symmetrized
from treefold.operators.transforms import (
    HALF_TYPES,
    are_transforms_active,
    autocast_device,
    is_traced,
)

OPERATORS: dict[str, Callable[..., Operator]] = {
    "binary-gru": BinaryGRU,
    "binary-mlp": BinaryMLP,
    "gated-selection": GatedSelection,
    "finite-selection": FiniteSelection,
    "conjugated-sum": Conjugated.sum,
    "conjugated-max": Conjugated.max,
}
"""By name: `OPERATORS[name](channels, **options)`."""

CELLS: dict[str, Callable[..., RecurrentCell]] = {"gru": RecurrentGRU, "lstm": RecurrentLSTM}
"""Recurrent cells by name."""

__all__ = [
    "CELLS",
    "HALF_TYPES",
    "OPERATORS",
    "BinaryGRU",
    "BinaryMLP",
    "CannotBuild",
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
    "WholeCounters",
    "are_transforms_active",
    "autocast_device",
    "compile_kernels",
    "is_traced",
    "kernels_in_use",
    "limit_threads",
    "release",
    "reset_parts",
    "reset_threads",
]
