"""How well an operator obeys the laws: quantiles of the violations over random elements."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from treefold.algebra.laws import FORMAL_IDENTITY, IDENTITY, MONOID_LAWS, Law
from treefold.algebra.monoid import (
    Monoid,
    State,
    require_elements,
    require_monoid,
    require_no_owner,
    stack_size,
)
from treefold.algebra.sampling import draw_for

FEWEST_SAMPLES = 3
"""With fewer, three that meet are never all different: associativity would look better."""

_NOTES = [
    "",
    "identity (formal): an empty group merged with x is x; e is not put through the operator.",
    "identity (of e): e, the answer of an empty group, as an element combined with x.",
]


@dataclass(frozen=True)
class LawRow:
    """The violations of one law: one number for each quantile of the report."""

    law: str
    absolute: tuple[float, ...]
    relative: tuple[float, ...]


@dataclass(frozen=True)
class LawReport:
    """How far an operator is from each law; print it to read it."""

    quantiles: tuple[float, ...]
    num_draws: int
    num_samples: int
    rows: tuple[LawRow, ...]

    def __str__(self) -> str:
        header = ["law", "violation", *(_percent(q) for q in self.quantiles)]
        lines = [header]
        for row in self.rows:
            lines.append([row.law, "absolute", *(f"{value:.2e}" for value in row.absolute)])
            lines.append(["", "relative", *(f"{value:.2e}" for value in row.relative)])
        title = f"Violations over {self.num_draws} draws from {self.num_samples} samples"
        notes = _NOTES if any(row.law == IDENTITY.label for row in self.rows) else []
        return "\n".join([title, "", *_align(lines), *notes])

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; infinities and NaN as strings that `float` reads."""
        rows = [
            {
                "law": row.law,
                "absolute": [_json(value) for value in row.absolute],
                "relative": [_json(value) for value in row.relative],
            }
            for row in self.rows
        ]
        return {**asdict(self), "quantiles": list(self.quantiles), "rows": rows}


def law_report(
    op: Callable[..., State],
    samples: State,
    laws: Sequence[Law] = MONOID_LAWS,
    quantiles: Sequence[float] = (0.5, 0.9, 0.99, 1.0),
    num_draws: int = 1024,
    generator: torch.Generator | None = None,
    inputs: State | None = None,
) -> LawReport:
    """Measure each law on `num_draws` random tuples of `samples`, a stack of elements.

    Draws are with replacement, so an element also meets itself. For `SWAP` the samples are
    states of a cell, and what it is given is drawn from `inputs`, or from the samples too. A
    quantile is one of the measured violations, the next higher one where it falls between two; NaN
    counts as the largest. There must be 3 samples or more.

    `IDENTITY` has two rows: `identity (formal)` is an empty part merged with an element, as every
    fold merges them, and `identity (of e)` is the vector `op.identity`, combined by the operator.
    """
    if not all(0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles {tuple(quantiles)} should lie between 0 and 1")
    _require_measurable(op, samples, laws)
    rows = []
    for law in laws:
        elements = draw_for(law, samples, inputs, num_draws, generator)
        for measured in (FORMAL_IDENTITY, law) if law == IDENTITY else (law,):
            violation = measured.violation(op, *elements)
            absolute = _quantiles(violation.absolute, quantiles)
            relative = _quantiles(violation.relative, quantiles)
            rows.append(LawRow(measured.label or measured.name, absolute, relative))
    return LawReport(tuple(quantiles), num_draws, stack_size(samples), tuple(rows))


def _require_measurable(op: Callable[..., State], samples: State, laws: Sequence[Law]) -> None:
    """Refuse what has no laws, samples that are none of its elements, and too few of them."""
    require_no_owner(op)
    if IDENTITY in laws:
        require_monoid(op)
    if isinstance(op, Monoid):
        require_elements(op, samples, "samples")
    count = stack_size(samples)
    if count < FEWEST_SAMPLES:
        raise ValueError(
            f"there are {count} samples; expected {FEWEST_SAMPLES} or more, or elements would meet "
            "hardly any but themselves: give as many different ones as you can"
        )


def _quantiles(values: Tensor, quantiles: Sequence[float]) -> tuple[float, ...]:
    # torch.quantile interpolates, which makes NaN of two infinities.
    ordered = values.sort().values.tolist()
    places = [q * (len(ordered) - 1) for q in quantiles]
    return tuple(ordered[math.ceil(place - 1e-9)] for place in places)


def _percent(quantile: float) -> str:
    return "max" if quantile == 1 else f"{100 * quantile:g}%"


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _align(table: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in table
    ]
