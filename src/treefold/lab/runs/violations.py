"""Violations of laws by a model's aggregator, on the states that it meets."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from treefold.aggr import (
    LCMAggregation,
    RaggedAggregation,
    RecurrentAggregation,
)
from treefold.algebra import MONOID_LAWS, SWAP, Law, State, draw_for
from treefold.fold import Groups, Rows, TableRows, chain_fold, plan_of, tree_fold
from treefold.lab.runs.loop import Examples

NUM_EXAMPLES = 64
"""Validation sets or graphs on whose states law violations are measured."""


def some_examples(data: Examples, device: torch.device) -> Any:
    """A batch of the first ones, to measure law violations on."""
    return data.take(torch.arange(min(NUM_EXAMPLES, len(data)))).to(device)


@torch.no_grad()
def violations_on(
    aggregator: RaggedAggregation, rows: Rows, groups: Groups, num_draws: int = 512
) -> dict[str, float]:
    """The mean relative violation of each law, for states drawn from folds of these rows.

    Learned monoids are measured for associativity, commutativity and identity, recurrent cells for
    indifference to swaps; fixed aggregators have none.
    """
    laws, op = laws_of(aggregator)
    if not laws:
        return {}
    generator, states = torch.Generator().manual_seed(0), states_of(aggregator, rows, groups)
    inputs = inputs_of(rows, groups)
    found = {}
    for law in laws:
        elements = draw_for(law, states, inputs, num_draws, generator)
        found[law.name] = float(law.violation(op, *elements).relative.mean())
    return found


def laws_of(aggregator: RaggedAggregation) -> tuple[tuple[Law, ...], Callable[..., State]]:
    """The laws an aggregator should obey, and what should obey them."""
    if isinstance(aggregator, LCMAggregation):
        return MONOID_LAWS, aggregator.operator
    if isinstance(aggregator, RecurrentAggregation):
        return (SWAP,), aggregator.cell
    return (), lambda *_: ()


def inputs_of(rows: Rows, groups: Groups) -> Tensor:
    """The inputs of a recurrent cell on these rows."""
    return TableRows.of(cast(Tensor | TableRows, rows))[groups.order].gathered()


@torch.no_grad()
def states_of(aggregator: RaggedAggregation, rows: Rows, groups: Groups) -> State:
    """All states that an aggregator goes through on these rows."""
    if isinstance(aggregator, LCMAggregation):
        leaves = TableRows.of(aggregator.projected(rows))[groups.order]
        fold = tree_fold(aggregator.operator, leaves, plan_of(groups, aggregator.eval_bracketing))
        return torch.cat([leaves.gathered(), cast(Tensor, fold.nodes)])
    cell = cast(RecurrentAggregation, aggregator).cell
    chain = chain_fold(cell, rows, groups, cell.initial, keep_states=True)
    return cast(State, chain.states)
