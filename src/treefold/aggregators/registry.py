"""Aggregators by name: what recipes and command lines say, and what every claim is tested on."""

from collections.abc import Callable
from typing import Any

from torch_geometric.nn import aggr as pyg

from treefold.aggregators.base import RaggedAggregation
from treefold.aggregators.fixed import FixedAggregation
from treefold.aggregators.lcm import LCMAggregation
from treefold.aggregators.recurrent import RecurrentAggregation
from treefold.names import by_name


def _fixed(aggregation: Callable[[], Any]) -> Callable[..., RaggedAggregation]:
    return lambda channels: FixedAggregation(aggregation(), channels)


def _recurrent(cell: str) -> Callable[..., RaggedAggregation]:
    return lambda channels, **options: RecurrentAggregation(channels, cell, **options)


def _lcm(operator: str, **defaults: Any) -> Callable[..., RaggedAggregation]:
    return lambda channels, **options: LCMAggregation(channels, operator, **(defaults | options))


AGGREGATORS: dict[str, Callable[..., RaggedAggregation]] = {
    "sum": _fixed(pyg.SumAggregation),
    "mean": _fixed(pyg.MeanAggregation),
    "max": _fixed(pyg.MaxAggregation),
    "min": _fixed(pyg.MinAggregation),
    "std": _fixed(pyg.StdAggregation),
    "pna": FixedAggregation.pna,
    "gru": _recurrent("gru"),
    "lstm": _recurrent("lstm"),
    "binary-gru": _lcm("binary-gru"),
    "binary-gru-assoc": _lcm("binary-gru", associativity=1.0),
    "binary-mlp": _lcm("binary-mlp"),
    "gated-selection": _lcm("gated-selection"),
    "gated-selection-consistent": _lcm(
        "gated-selection", bracketing="random", consistency=0.5, law_reduction="mean"
    ),
    "conjugated-sum": _lcm("conjugated-sum"),
    "conjugated-max": _lcm("conjugated-max"),
}
"""By name: `AGGREGATORS[name](channels, **options)`."""


def aggregator(name: str, channels: int, **options: Any) -> RaggedAggregation:
    """The aggregator of that name, for rows of `channels` numbers."""
    return by_name(AGGREGATORS, name, "aggregator")(channels, **options)
