"""Networks around aggregators."""

from treefold.models.set_network import OracleNetwork, SetNetwork

__all__ = ["OracleNetwork", "SetNetwork"]
