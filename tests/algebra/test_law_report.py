import json
import math
import re

import pytest
import torch
from algebra.monoid_cases import SUBTRACTION, Operator

from treefold.algebra import (
    ASSOCIATIVITY,
    COMMUTATIVITY,
    IDENTITY,
    MONOID_LAWS,
    SWAP,
    KthMinimum,
    LawReport,
    LawRow,
    Mean,
    Partial,
    Sum,
    law_report,
)

NAMES = ["identity (formal)", "identity (of e)", "commutativity", "associativity"]
SAMPLES = torch.linspace(-1, 1, 20).unsqueeze(-1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("op", [Sum(), Mean(), KthMinimum(3)], ids=repr)
def test_an_exact_monoid_has_no_violations_to_speak_of(op):
    report = law_report(op, op.encode(SAMPLES.double()), generator=seeded())
    assert [row.law for row in report.rows] == NAMES
    for row in report.rows:
        assert max(*row.absolute, *row.relative) < 1e-12


def test_the_formal_identity_is_exact_and_the_vector_e_is_measured_beside_it():
    e = torch.tensor([7.0])
    report = law_report(Operator(torch.add, e), SAMPLES, [IDENTITY, ASSOCIATIVITY])
    formal, of_e, _ = report.rows
    assert [row.law for row in report.rows] == [*NAMES[:2], "associativity"]
    assert set(formal.absolute + formal.relative) == {0.0}
    assert of_e.absolute == pytest.approx([2**0.5 * 7] * 4)  # from either side
    lines = str(report).splitlines()
    assert lines[3].split() == ["identity", "(formal)", "absolute", *["0.00e+00"] * 4]
    assert lines[-2].startswith("identity (formal): an empty group merged with x is x")
    assert lines[-1].startswith("identity (of e): e, the answer of an empty group")


def test_the_formal_identity_is_measured_through_the_merging_code(monkeypatch):
    def careless(self, other, op):
        return Partial(op(self.value(op), other.value(op)), self.is_empty & other.is_empty)

    monkeypatch.setattr(Partial, "merged", careless)
    formal, of_e, *_ = law_report(Operator(torch.add, torch.tensor([7.0])), SAMPLES).rows
    assert formal.absolute == of_e.absolute


def test_quantiles_are_those_of_all_pairs():
    # |2 (a - b)| over all pairs of 0, 1, ..., 4: 5 zeros, 8 twos, 6 fours, 4 sixes, 2 eights.
    samples = torch.arange(5.0)
    report = law_report(
        SUBTRACTION,
        samples,
        laws=[COMMUTATIVITY],
        quantiles=(0.0, 0.1, 0.4, 0.65, 0.84, 1.0),
        num_draws=20_000,
        generator=seeded(),
    )
    assert report.rows[0].absolute == (0.0, 0.0, 2.0, 4.0, 6.0, 8.0)
    assert report.rows[0].relative == (0.0, 0.0, 2.0, 2.0, 2.0, 2.0)


def test_a_quantile_between_two_violations_is_the_higher_one():
    report = law_report(
        SUBTRACTION, SAMPLES, [COMMUTATIVITY], (0.0, 0.3, 1.0), num_draws=2, generator=seeded()
    )
    low, between, high = report.rows[0].absolute
    assert low < between == high


def test_equal_samples_leave_nothing_to_chance():
    # e - a misses a by 2 · 3, and (a - a) - a misses a - (a - a) by as much.
    report = law_report(SUBTRACTION, torch.full((3,), 3.0), num_draws=7, quantiles=(0.0, 0.3, 1.0))
    none, some = (0.0,) * 3, (6.0,) * 3
    assert [row.absolute for row in report.rows] == [none, some, none, some]


def test_the_generator_decides_the_draws():
    first, again = (law_report(SUBTRACTION, SAMPLES, generator=seeded()) for _ in range(2))
    other = law_report(SUBTRACTION, SAMPLES, generator=seeded(1))
    assert first == again
    assert first != other


def test_infinite_violations_and_nan_stay_in_the_upper_quantiles():
    op = Operator(lambda a, b: a / b, torch.tensor(1.0))
    report = law_report(op, torch.tensor([0.0, 1.0, 1.0, 1.0]), [COMMUTATIVITY], (0.25, 0.8, 1.0))
    assert report.rows[0].absolute[0] == 0.0
    assert report.rows[0].absolute[1] == math.inf
    assert math.isnan(report.rows[0].absolute[2])


def test_samples_serve_as_states_and_inputs_of_a_cell():
    report = law_report(lambda s, x: s / 2 + x, SAMPLES, laws=[SWAP], generator=seeded())
    assert report.rows[0].law == "swap"
    assert report.rows[0].absolute[-1] == pytest.approx(1.0, abs=1e-6)  # |y - x| / 2 = 1


def test_no_gradients_are_recorded():
    seen = []

    def watch(a, b):
        seen.append((a + b).requires_grad)
        return a + b

    law_report(watch, SAMPLES.clone().requires_grad_(), [COMMUTATIVITY], num_draws=2)
    assert seen == [False, False]


REPORT = LawReport(
    quantiles=(0.5, 0.99, 1.0),
    num_draws=8,
    num_samples=4,
    rows=(LawRow("swap", (0.0, 0.25, 12.5), (0.0, 1e-7, math.inf)),),
)


def test_a_report_prints_as_an_aligned_table():
    assert str(REPORT).splitlines() == [
        "Violations over 8 draws from 4 samples",
        "",
        "law   violation       50%       99%       max",
        "swap  absolute   0.00e+00  2.50e-01  1.25e+01",
        "      relative   0.00e+00  1.00e-07       inf",
    ]


def test_a_report_is_strict_json():
    record = json.loads(json.dumps(REPORT.to_dict(), allow_nan=False))
    assert record == {
        "quantiles": [0.5, 0.99, 1.0],
        "num_draws": 8,
        "num_samples": 4,
        "rows": [{"law": "swap", "absolute": [0.0, 0.25, 12.5], "relative": [0.0, 1e-7, "inf"]}],
    }


def test_what_cannot_be_measured_is_refused():
    for count in range(3):
        with pytest.raises(ValueError, match=f"there are {count} samples; expected 3 or more"):
            law_report(Sum(), torch.zeros(count, 3))
    law_report(Sum(), torch.zeros(3, 3))
    with pytest.raises(ValueError, match="0 draws"):
        law_report(Sum(), SAMPLES, num_draws=0)
    with pytest.raises(ValueError, match=r"quantiles \(0.5, 90.0\)"):
        law_report(Sum(), SAMPLES, [ASSOCIATIVITY], quantiles=(0.5, 90.0))


@pytest.mark.parametrize("shape", [(20, 5), (20,), (20, 4, 1)], ids=str)
@pytest.mark.parametrize("laws", [MONOID_LAWS, [ASSOCIATIVITY]], ids=len)
def test_samples_that_are_no_elements_are_refused(shape, laws):
    op = Operator(torch.add, torch.zeros(4))
    with pytest.raises(ValueError, match=rf"samples have shape {re.escape(str(shape))}; expected"):
        law_report(op, torch.zeros(shape), laws)
    with pytest.raises(ValueError, match=r"\[n, \.\.\., 4\], because an element of Operator has"):
        law_report(op, torch.zeros(shape), laws)


def test_what_has_an_operator_is_refused_whatever_the_laws():
    class Owner:
        operator = Sum()

        def __call__(self, a, b):
            return self.operator(a, b)

    with pytest.raises(ValueError, match=r"got a Owner; .* give `\.operator`"):
        law_report(Owner(), SAMPLES, [COMMUTATIVITY])


def test_what_a_cell_is_given_is_drawn_from_the_inputs():
    """With a cell that keeps its state unless it is given something above one, order matters not
    for small inputs, whatever the states are."""

    def cell(state, x):
        return torch.where(x > 1, x, state)

    states, small = torch.randn(50, 3) * 100, torch.rand(20, 3)
    (row,) = law_report(cell, states, [SWAP], inputs=small).rows
    assert row.absolute == (0, 0, 0, 0)
    (row,) = law_report(cell, states, [SWAP]).rows
    assert row.absolute[-1] > 1
