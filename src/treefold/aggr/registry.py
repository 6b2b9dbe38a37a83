"""Aggregators by name: as in recipes and on the command line; every claim is tested on each."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from torch_geometric.nn import aggr as pyg

from treefold.aggr.base import RaggedAggregation
from treefold.aggr.counters import finite_counters
from treefold.aggr.extremes import ExtremeAggregation
from treefold.aggr.fixed import FixedAggregation
from treefold.aggr.lcm import LCMAggregation
from treefold.aggr.recurrent import RecurrentAggregation
from treefold.aggr.scaled_pair import LearnedPNAAggregation
from treefold.aggr.signal_mixing import SignalMixingAggregation
from treefold.names import by_name, require_one_of


def _make_fixed(channels: int, aggregation: Callable[[], Any]) -> RaggedAggregation:
    return FixedAggregation(aggregation(), channels)


def _fixed(aggregation: Callable[[], Any]) -> Callable[..., RaggedAggregation]:
    return partial(_make_fixed, aggregation=aggregation)


def _recurrent(cell: str) -> Callable[..., RaggedAggregation]:
    return partial(RecurrentAggregation, cell=cell)


def _lcm(operator: str, **defaults: Any) -> Callable[..., RaggedAggregation]:
    return partial(LCMAggregation, operator=operator, **defaults)


_SETTLED = ("channels", "aggregation", "cell", "operator")
"""Arguments that a name, and the number of channels, have decided already."""


AGGREGATORS: dict[str, Callable[..., RaggedAggregation]] = {
    "sum": _fixed(pyg.SumAggregation),
    "mean": _fixed(pyg.MeanAggregation),
    "max": _fixed(partial(ExtremeAggregation, "max")),
    "min": _fixed(partial(ExtremeAggregation, "min")),
    "std": _fixed(pyg.StdAggregation),
    "pna": FixedAggregation.pna,
    "ssma": SignalMixingAggregation,
    "gru": _recurrent("gru"),
    "lstm": _recurrent("lstm"),
    "binary-gru": _lcm("binary-gru"),
    "binary-gru-assoc": _lcm("binary-gru", associativity=1.0),
    "binary-mlp": _lcm("binary-mlp"),
    "gated-selection": _lcm("gated-selection"),
    "gated-selection-general": _lcm(
        "gated-selection",
        bracketing="random",
        consistency=0.5,
        law_reduction="mean",
        operator_options={"stretch": 0.1},
    ),
    "pna-selection": LearnedPNAAggregation,
    "finite-selection": _lcm(
        "finite-selection", bracketing="random", consistency=0.5, law_reduction="mean"
    ),
    "finite-counters": finite_counters,
    "conjugated-sum": _lcm("conjugated-sum"),
    "conjugated-max": _lcm("conjugated-max"),
}
"""By name: `AGGREGATORS[name](channels, **options)`."""


def aggregator(name: str, channels: int, **options: Any) -> RaggedAggregation:
    """The aggregator of that name, for rows of `channels` numbers."""
    make = by_name(AGGREGATORS, name, "aggregator")
    known = [key for key in signature(make).parameters if key not in _SETTLED]
    if options and not known:
        raise ValueError(f"{name} takes no options; got {', '.join(options)}")
    for option in options:
        require_one_of(known, option, f"option of {name}")
    if "operator_options" in options and isinstance(make, partial):
        settled = make.keywords.get("operator_options", {})
        options["operator_options"] = {**settled, **(options["operator_options"] or {})}
    return make(channels, **options)
