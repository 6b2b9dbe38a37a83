"""Certificates for networks on multisets: closed, answered and compared, from their weights."""

import dataclasses
import time
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from treefold.aggr import LCMAggregation
from treefold.algebra import State
from treefold.finite import (
    Certificate,
    FiniteMonoid,
    Grade,
    Watch,
    certify,
    close,
    fingerprint,
)
from treefold.lab.networks import Bounded, CountingNetwork, SetNetwork, bounded
from treefold.lab.tasks import SetTask, from_bits
from treefold.operators import FiniteCounters, FiniteSelection

ANSWERS_AT_ONCE = 4096


class Proved(NamedTuple):
    """A certificate, and the monoid that it is about."""

    certificate: Certificate
    monoid: FiniteMonoid


@torch.no_grad()
def certify_network(
    model: SetNetwork | CountingNetwork,
    task: SetTask,
    grade: Grade = "tree",
    limit: int = 60_000,
    watch: Watch = lambda known, left: None,
    about: Mapping[str, Any] | None = None,
) -> Proved:
    """Close the operator of a network over all integers, and compare it with the exact monoid.

    Answers are read off in float64; the certificate's margin is how far the numbers that become
    codes and answers are clear of what rounding can do to them in float32.
    """
    model.eval()
    op = _operator_of(model)
    began = time.monotonic()
    elements, clear = _elements(model, op)
    counts = op.counts() if isinstance(op, FiniteCounters) else None
    exact = counts or op
    rows = counts.encode(elements) if counts else elements

    def compare(trees: bool) -> tuple[Certificate, FiniteMonoid, float]:
        finite = close(exact, rows, limit, trees=trees, watch=watch)
        margins = list[float]()

        def answers(codes: State) -> Tensor:
            parts = []
            for part in cast(Tensor, codes).split(ANSWERS_AT_ONCE):
                logits = bounded(model.decoder, counts.decode(part) if counts else part)
                margins.append(logits.margin)
                parts.append(from_bits(logits.value > 0))
            return torch.cat(parts)

        finite = finite.answering(answers)
        return certify(finite, task, grade, exact, **(about or {})), finite, min(margins)

    found, finite, margin = compare(trees=False)
    if grade == "tree" and not found.holds:  # products may lead to states that lists do not reach
        found, finite, margin = compare(trees=True)
    seconds, weights = round(time.monotonic() - began, 3), fingerprint(model)
    found = dataclasses.replace(found, seconds=seconds, weights=weights)
    return Proved(found.with_margin(min(clear, margin)), finite)


def _operator_of(model: SetNetwork | CountingNetwork) -> FiniteCounters | FiniteSelection:
    aggregator = model.aggregator
    op = aggregator.operator if isinstance(aggregator, LCMAggregation) else aggregator
    if not isinstance(op, FiniteCounters | FiniteSelection):
        raise ValueError(
            f"{type(op).__name__} has no finite states to enumerate; expected a run of "
            "finite-counters or finite-selection"
        )
    if not op.hard:
        raise ValueError(
            "its states are still soft; train it with training.hard_from below 1, to the end"
        )
    return op


def _elements(
    model: SetNetwork | CountingNetwork, op: FiniteCounters | FiniteSelection
) -> tuple[Tensor, float]:
    """The codes of all integers, and how clear of rounding the numbers are that decide them."""
    if isinstance(model, CountingNetwork):
        return op.code(model.table()), inf  # a table of parameters: nothing is computed
    bits = model.embedding.flatten(0, 1)
    embedding = torch.nn.Linear(bits.shape[0], bits.shape[1], bias=False)
    embedding.weight.copy_(bits.T)
    parts = [embedding, *model.encoder]
    project = cast(LCMAggregation, model.aggregator).project
    if project is not None:
        parts.append(project)
    rows = bounded(torch.nn.Sequential(*parts), model.is_digit)
    return op.code(rows.value.float()), _clearance(op, rows)


def _clearance(op: FiniteCounters | FiniteSelection, rows: Bounded) -> float:
    if isinstance(op, FiniteSelection):
        return rows.margin
    gaps, error = [], 2 * rows.error.amax(-1)
    for columns in op.split(rows.value):
        if len(columns) > 1:
            best = torch.stack(columns).topk(2, 0).values
            gaps.append((best[0] - best[1]).amin(-1) - error)
    return float(torch.stack(gaps).min())
