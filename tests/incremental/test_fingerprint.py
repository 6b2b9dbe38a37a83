"""A saved set is loaded by the operator that made it, to its last option, and by no other."""

import copy

import pytest
import torch
from torch import nn
from trees import normal

from treefold.algebra import Max, Sum
from treefold.incremental import FoldTree
from treefold.incremental.fingerprint import fingerprint
from treefold.operators import OPERATORS, Conjugated, GatedSelection


class Scaled:
    """Neither a module nor a dataclass."""

    identity = torch.tensor(0.0)

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, a, b):
        return self.scale * (a + b)


class Activated(nn.Module):
    """A module whose parts have no numbers."""

    identity = torch.tensor(0.0)

    def __init__(self, activation):
        super().__init__()
        self.activation = activation

    def forward(self, a, b):
        return self.activation(a + b)


def with_weights_of(made, other):
    made.load_state_dict(other.state_dict())
    return made


def gated(**options):
    torch.manual_seed(0)
    return GatedSelection(4, **options)


def conjugated(kind, **options):
    torch.manual_seed(0)
    return kind(4, **options)


PAIRS = {
    "another monoid inside": (conjugated(Conjugated.sum), conjugated(Conjugated.max)),
    "another bottom": (conjugated(Conjugated.max), conjugated(Conjugated.max, bottom=-8.0)),
    "another number": (gated(stretch=0.1), gated(stretch=0.2)),
    "another part without numbers": (Activated(nn.ReLU()), Activated(nn.Tanh())),
    "another option of a part": (Activated(nn.LeakyReLU(0.1)), Activated(nn.LeakyReLU(0.2))),
    "another function": (Activated(torch.relu), Activated(torch.tanh)),
    "another attribute of a plain class": (Scaled(1.0), Scaled(2.0)),
    "another exact monoid": (Max(), Sum()),
}


@pytest.mark.parametrize("what", PAIRS)
def test_a_tree_is_refused_by_an_operator_with(what, tmp_path):
    mine, other = PAIRS[what]
    tree = FoldTree(mine, normal(9, 4).float())
    tree.save(tmp_path)
    assert FoldTree.load(tmp_path, mine).value().equal(tree.value())
    with pytest.raises(ValueError, match=r"another operator than this .* or with other options"):
        FoldTree.load(tmp_path, other)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_made_again_with_the_same_parameters_is_the_same(name):
    op = OPERATORS[name](4)
    again = with_weights_of(OPERATORS[name](4), op)
    before = fingerprint([op])
    assert fingerprint([again.eval()]) == fingerprint([copy.deepcopy(op)]) == before
    FoldTree(op, torch.randn(5, 4)).value()
    assert fingerprint([op]) == before  # use leaves no trace
    for parameter in again.parameters():  # finite counters have none
        with torch.no_grad():
            parameter.view(-1)[0] += 1
        assert fingerprint([again]) != before


def test_objects_that_hold_each_other_have_a_fingerprint():
    first, second = Scaled(1.0), Scaled(2.0)
    first.other, second.other = second, first
    assert fingerprint([first]) != fingerprint([second])
