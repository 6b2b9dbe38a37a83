"""Aggregators: PyG modules over ragged groups, fixed, recurrent and learned monoids."""

from treefold.aggr.across_relations import AcrossRelations
from treefold.aggr.base import (
    RaggedAggregation,
)
from treefold.aggr.counters import Logits
from treefold.aggr.fixed import (
    FixedAggregation,
    MonoidAggregation,
)
from treefold.aggr.lcm import (
    LCMAggregation,
)
from treefold.aggr.penalties import (
    Penalties,
    Penalty,
    record_penalties,
    with_penalties,
)
from treefold.aggr.per_layer import aggregator_per_layer
from treefold.aggr.pyg_groups import (
    reuse_plans,
)
from treefold.aggr.quantile import MedianAggregation, QuantileAggregation
from treefold.aggr.recurrent import (
    RecurrentAggregation,
)
from treefold.aggr.registry import (
    AGGREGATORS,
    aggregator,
)
from treefold.aggr.scaled_pair import LearnedPNAAggregation
from treefold.aggr.signal_mixing import SignalMixing, SignalMixingAggregation
from treefold.aggr.static import (
    StaticGroups,
    static_plans,
    supplied_plan,
)

__all__ = [
    "AGGREGATORS",
    "AcrossRelations",
    "FixedAggregation",
    "LCMAggregation",
    "LearnedPNAAggregation",
    "Logits",
    "MedianAggregation",
    "MonoidAggregation",
    "Penalties",
    "Penalty",
    "QuantileAggregation",
    "RaggedAggregation",
    "RecurrentAggregation",
    "SignalMixing",
    "SignalMixingAggregation",
    "StaticGroups",
    "aggregator",
    "aggregator_per_layer",
    "record_penalties",
    "reuse_plans",
    "static_plans",
    "supplied_plan",
    "with_penalties",
]
