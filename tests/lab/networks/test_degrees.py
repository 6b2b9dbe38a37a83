"""PNA is told the degrees of training graphs, and nobody else."""

import pytest

from treefold.lab.networks.degrees import told_degrees


def test_pna_is_told_and_its_own_options_win():
    assert told_degrees("pna", 1.5, {}) == {"mean_log": 1.5}
    assert told_degrees("pna", 1.5, {"mean_log": 2.0}) == {"mean_log": 2.0}


@pytest.mark.parametrize(("name", "delta"), [("pna", None), ("sum", 1.5), ("binary-gru", 1.5)])
def test_others_have_their_options_as_they_are_and_so_has_pna_without_degrees(name, delta):
    assert told_degrees(name, delta, {"associativity": 0.1}) == {"associativity": 0.1}
