"""Sets larger than memory: the gradient is that of the fold in memory, and memory is a chunk's."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from trees import normal

from treefold.algebra import Mean
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import Chunk, fold_chunks
from treefold.operators import OPERATORS, BinaryGRU

NUM_SETS = 4


def parts(name="binary-gru"):
    torch.manual_seed(0)
    op, encode = OPERATORS[name](4).double(), nn.Linear(3, 4).double()
    if isinstance(op.identity, nn.Parameter):
        nn.init.normal_(op.identity)
    return op, encode, [*op.parameters(), *encode.parameters()]


def source(x, sets, size):
    pairs = list(zip(x.split(size), sets.split(size), strict=True))
    return lambda: (Chunk(rows, index) for rows, index in pairs)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("size", [1, 7, 16, 60])
def test_value_and_gradient_are_those_of_the_fold_in_memory(name, size):
    op, encode, parameters = parts(name)
    x, sets = normal(50, 3), torch.randint(0, NUM_SETS - 1, (50,))  # the last set is empty
    groups = Groups.from_index(sets, NUM_SETS)
    weight = normal(NUM_SETS, 4, seed=1)
    whole = tree_reduce(op, encode(x)[groups.order], plan_tree(groups.sizes, "carry"))
    chunked = fold_chunks(op, source(x, sets, size), NUM_SETS, encode)
    torch.testing.assert_close(chunked, whole)
    torch.testing.assert_close(
        torch.autograd.grad((chunked * weight).sum(), parameters),
        torch.autograd.grad((whole * weight).sum(), parameters),
    )


def test_rows_may_be_elements_already_and_all_of_one_set():
    op, _, _ = parts()
    x = normal(21, 4)
    out = fold_chunks(op, lambda: x.split(8))
    out.sum().backward()
    torch.testing.assert_close(out, tree_reduce(op, x, plan_tree([21], "carry")))
    assert op.cell.weight_ih.grad.abs().sum() > 0


def test_dropout_falls_alike_both_times():
    op, linear, parameters = parts()
    x = normal(40, 3)
    chunks = x.split(16)
    encode = nn.Sequential(linear, nn.Dropout(0.5))
    kept = []

    class Noted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = encode

        def forward(self, rows):
            kept.append(self.inner(rows))
            return kept[-1]

    out = fold_chunks(op, lambda: chunks, encode=Noted())
    found = torch.autograd.grad(out.sum(), parameters)
    forward, backward = kept[:3], kept[3:]
    torch.testing.assert_close(forward, [rows.detach() for rows in backward])
    mask = (torch.cat(forward) != 0) * 2.0
    whole = tree_reduce(op, linear(x) * mask, plan_tree([40], "carry"))
    torch.testing.assert_close(found, torch.autograd.grad(whole.sum(), parameters))


def test_no_rows_at_all_are_the_identity_with_its_gradient():
    op, _, _ = parts()
    out = fold_chunks(op, list, 2)
    out.sum().backward()
    torch.testing.assert_close(out, op.identity.expand(2, 4))
    assert op.identity.grad.tolist() == [2.0] * 4


def test_a_source_that_can_be_read_only_once_is_noticed():
    op, _, _ = parts()
    once = iter(normal(20, 4).split(8))
    out = fold_chunks(op, lambda: once)
    with pytest.raises(ValueError, match="other chunks the second time"):
        out.sum().backward()


def test_a_function_around_a_network_is_refused_because_the_network_would_not_learn():
    op, encode, _ = parts()
    x = normal(20, 3)
    with pytest.raises(ValueError, match=r"encoder .* shape \(4, 3\) that requires .* encode=net"):
        fold_chunks(op, lambda: x.split(8), encode=lambda rows: encode(rows))
    with pytest.raises(ValueError, match=r"chunks have rows made .* compute them from data in"):
        fold_chunks(op, lambda: [encode(rows) for rows in x.split(8)])
    frozen = op.requires_grad_(False)  # so that there would be no backward pass to notice it in
    with pytest.raises(ValueError, match="encoder"):
        fold_chunks(frozen, lambda: x.split(8), encode=lambda rows: encode(rows))


def test_rows_that_require_a_gradient_are_refused():
    op, encode, _ = parts()
    x = normal(20, 3).requires_grad_()
    with pytest.raises(ValueError, match=r"shape \(20, 3\) that requires a gradient .* detach"):
        fold_chunks(op, lambda: x.split(8), encode=encode)


def test_an_operator_that_hides_its_parameters_is_refused():
    op, _, _ = parts()

    class Hidden:
        identity = op.identity.detach()

        def __call__(self, a, b):
            return op(a, b)

    with pytest.raises(ValueError, match=r"operator .* is an nn.Module and holds it"):
        fold_chunks(Hidden(), lambda: normal(20, 4).split(8))


def test_where_no_gradient_is_asked_for_any_function_will_do():
    op, encode, _ = parts()
    x = normal(20, 3)
    expected = tree_reduce(op, encode(x), plan_tree([20], "carry")).detach()
    with torch.no_grad():
        found = fold_chunks(op, lambda: x.split(8), encode=lambda rows: encode(rows))
    torch.testing.assert_close(found, expected)
    detached = fold_chunks(op, lambda: x.split(8), encode=lambda rows: encode(rows).detach())
    torch.testing.assert_close(detached, expected)


def test_tuples_are_refused():
    with pytest.raises(ValueError, match="operators on tensors"):
        fold_chunks(Mean(), list)


MEASURE = """
import resource, torch
from treefold.incremental import fold_chunks
from treefold.operators import BinaryGRU
torch.set_num_threads(1)
op = BinaryGRU(32)

def chunks(count):
    return lambda: (torch.full((8192, 32), float(number)) for number in range(count))

def peak(count):
    fold_chunks(op, chunks(count)).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

peak(2)
print(peak(4), peak(32))
"""


def test_eight_times_the_elements_take_no_more_memory():
    command = [sys.executable, "-W", "ignore", "-c", MEASURE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    few, many = map(int, done.stdout.split())
    in_memory = 28 * 8192 * 32 * 4  # the additional rows alone; their graph would be 9 times that
    assert many - few < in_memory / 4


def test_the_operator_may_have_nothing_to_learn():
    op = BinaryGRU(4).requires_grad_(False)
    assert not fold_chunks(op, lambda: torch.randn(9, 4).split(3)).requires_grad


def test_chunks_that_can_be_read_but_once_are_refused():
    with pytest.raises(ValueError, match="chunks is a tuple, but they are read twice; give a func"):
        fold_chunks(BinaryGRU(3), torch.randn(10, 3).split(4))
