"""Signal mixing is a monoid: its states may be merged in any order, streamed and updated."""

import pytest
import torch
from aggr.cases import CHANNELS, X, make

from treefold import FoldTree, StreamingFold
from treefold.aggr import SignalMixing

ALL = torch.zeros(len(X), dtype=torch.int64)


@pytest.fixture
def module():
    return make("ssma")


def test_states_of_parts_add_up_to_the_state_of_the_whole(module):
    parts = [module.monoid.encode(part).sum(0, keepdim=True) for part in X.split([3, 9, 5])]
    merged = module.monoid(module.monoid(parts[2], parts[0]), parts[1])
    torch.testing.assert_close(module.monoid.decode(merged), module(X, ALL))


def test_a_stream_and_an_incremental_set_give_what_the_module_gives(module):
    states = module.monoid.encode(X).detach()
    stream = StreamingFold(module.monoid)
    for part in states.split(4):
        stream.feed(part)
    tree = FoldTree(module.monoid, states)
    for fold in (stream, tree):
        answer = module.monoid.decode(fold.value())
        torch.testing.assert_close(answer.flatten(), module(X, ALL)[0])


def test_two_polynomials_are_multiplied(module):
    """The phases and magnitudes of two elements are those of the product on the whole grid."""
    monoid, side = module.monoid, module.monoid.side
    first, second = monoid.to_signal(X[:2]).view(2, side, side)
    product = torch.zeros(2 * side - 1, 2 * side - 1, dtype=X.dtype)
    for i in range(side):
        for j in range(side):
            product[i : i + side, j : j + side] += first[i, j] * second
    spectrum = torch.fft.rfft2(product)
    expected = monoid.from_signal(
        torch.fft.irfft2(spectrum / spectrum.abs().sqrt(), s=product.shape).flatten()
    )
    torch.testing.assert_close(module(X[:2], ALL[:2])[0], expected, rtol=1e-4, atol=1e-5)


def test_the_number_of_coefficients_follows_the_channels():
    assert SignalMixing(CHANNELS).side == 2
    assert SignalMixing(5).side == 3
    with pytest.raises(ValueError, match="side is 0; expected 1 or more"):
        SignalMixing(4, side=0)
