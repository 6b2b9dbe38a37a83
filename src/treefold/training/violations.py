"""How far a model's aggregator is from the laws, on the states it really meets."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from treefold.aggregators import LCMAggregation, RaggedAggregation, RecurrentAggregation
from treefold.aggregators.plan_cache import packed_order_of, plan_of
from treefold.algebra import MONOID_LAWS, SWAP, Law, State, draw_elements
from treefold.models import SetNetwork
from treefold.reduction import TableRows, chain_fold, tree_fold
from treefold.tasks import SetData


@torch.no_grad()
def law_violations(network: SetNetwork, data: SetData, num_draws: int = 512) -> dict[str, float]:
    """The mean relative violation of each law, for states drawn from folds of these sets.

    Learned monoids are asked for associativity, commutativity and identity, recurrent cells for
    indifference to swaps; fixed aggregators have nothing to answer for.
    """
    laws, op = laws_of(network.aggregator)
    if not laws:
        return {}
    generator, states = torch.Generator().manual_seed(0), fold_states(network, data)
    found = {}
    for law in laws:
        elements = draw_elements(states, law.arity, num_draws, generator)
        if law is SWAP:  # a state, then two rows
            rows = network.table()[data.values]
            elements = [elements[0], *draw_elements(rows, 2, num_draws, generator)]
        found[law.name] = float(law.violation(op, *elements).relative.mean())
    return found


def laws_of(aggregator: RaggedAggregation) -> tuple[tuple[Law, ...], Callable[..., State]]:
    """The laws an aggregator should obey, and what should obey them."""
    if isinstance(aggregator, LCMAggregation):
        return MONOID_LAWS, aggregator.operator
    if isinstance(aggregator, RecurrentAggregation):
        return (SWAP,), aggregator.cell
    return (), lambda *_: ()


@torch.no_grad()
def fold_states(network: SetNetwork, data: SetData) -> State:
    """All states that the network's aggregator goes through on these sets."""
    x, groups, aggregator = TableRows(network.table(), data.values), data.groups, network.aggregator
    if isinstance(aggregator, LCMAggregation):
        fold = tree_fold(aggregator.operator, x, plan_of(groups, aggregator.eval_bracketing))
        return torch.cat([x.gathered(), cast(Tensor, fold.nodes)])
    cell = cast(RecurrentAggregation, aggregator).cell
    chain = chain_fold(cell, x, groups, packed_order_of(groups), cell.initial, keep_states=True)
    return cast(State, chain.states)
