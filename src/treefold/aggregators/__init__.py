"""Aggregators: PyG modules over ragged groups, fixed, recurrent and learned monoids."""

from treefold.aggregators.base import RaggedAggregation
from treefold.aggregators.fixed import FixedAggregation, MonoidAggregation
from treefold.aggregators.lcm import LCMAggregation
from treefold.aggregators.penalties import Penalties, Penalty, record_penalties
from treefold.aggregators.plan_cache import plan_of, reuse_plans
from treefold.aggregators.recurrent import RecurrentAggregation
from treefold.aggregators.registry import AGGREGATORS, aggregator

__all__ = [
    "AGGREGATORS",
    "FixedAggregation",
    "LCMAggregation",
    "MonoidAggregation",
    "Penalties",
    "Penalty",
    "RaggedAggregation",
    "RecurrentAggregation",
    "aggregator",
    "plan_of",
    "record_penalties",
    "reuse_plans",
]
