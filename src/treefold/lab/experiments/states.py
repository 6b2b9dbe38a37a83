"""The states of a trained operator: how many there are, their laws, and how few would do."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from treefold.aggr import LCMAggregation, RaggedAggregation
from treefold.algebra import Monoid, State
from treefold.finite import Laws, LimitReached, check, close, minimize
from treefold.fold import TableRows
from treefold.lab.experiments.task_runner import Folded
from treefold.lab.networks import CountingNetwork, SetNetwork, bounded
from treefold.lab.tasks import from_bits
from treefold.operators import FiniteCounters, FiniteSelection

LIMIT = 1 << 12


@dataclass(frozen=True)
class States:
    """All states that an operator reaches by trees over some elements, unless they are too many."""

    elements: int
    """Distinct elements that there were."""
    reached: int
    limit: int
    laws: Laws | None = None
    """None if the limit was reached."""
    quotient: int | None = None
    """States that distinguish answers, as lists grow; None if nobody reads answers."""

    def __str__(self) -> str:
        start = f"{self.elements} generators; "
        if self.laws is None:
            return f"{start}limit reached, more than {self.limit} states"
        lines = [f"{start}{self.laws}"]
        if self.quotient is not None:
            lines.append(f"smallest quotient: {self.quotient} states answer the same")
        return "\n".join(lines)

    def metrics(self) -> dict[str, Any]:
        """The entries of a record."""
        found: dict[str, Any] = {"finite_states": self.reached if self.laws else None}
        if self.laws is not None:
            found["commutative_monoid"] = self.laws.commutative_monoid
            found["smallest_quotient"] = self.quotient
        return found


@torch.no_grad()
def states_of_layer(each: Folded) -> States | None:
    """The states of an aggregator whose operator is finite, from all rows that it meets."""
    rows = each.rows.table if isinstance(each.rows, TableRows) else each.rows
    return _states(each.aggregator, cast(Tensor, rows))


@torch.no_grad()
def states_of_network(network: nn.Module) -> States | None:
    """The states of a network on multisets, from all its integers; its decoder reads answers."""
    if not isinstance(network, SetNetwork | CountingNetwork):
        return None
    return _states(network.aggregator, network.table(), network.decoder)


def _states(
    aggregator: RaggedAggregation, rows: Tensor, decoder: nn.Module | None = None
) -> States | None:
    op = aggregator.operator if isinstance(aggregator, LCMAggregation) else None
    if not isinstance(op, FiniteCounters | FiniteSelection) or not op.hard:
        return None
    was_training = aggregator.training
    aggregator.eval()
    projected = cast(LCMAggregation, aggregator).projected(rows)
    elements = op.code(cast(Tensor, projected)).unique(dim=0)
    counts = op.counts() if isinstance(op, FiniteCounters) else None
    exact: Monoid = counts or op
    try:
        finite = close(exact, counts.encode(elements) if counts else elements, LIMIT)
    except LimitReached as reached:
        return States(len(elements), len(cast(Tensor, reached.codes)), LIMIT)
    finally:
        aggregator.train(was_training)

    def answers(codes: State) -> Tensor:
        states = counts.decode(cast(Tensor, codes)) if counts else cast(Tensor, codes)
        return from_bits(bounded(cast(nn.Module, decoder), states).value > 0)

    quotient = None
    laws = check(finite)
    if decoder is not None and laws.commutative_monoid:
        quotient = len(minimize(finite.answering(answers)).monoid) - 1
    return States(len(elements), len(finite) - 1, LIMIT, laws, quotient)
