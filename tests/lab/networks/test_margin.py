"""Bounds on rounding are bounds, and not absurdly wide."""

import pytest
import torch
from torch import nn

from treefold.lab.networks import bounded

NETWORK = nn.Sequential(
    nn.Linear(40, 30), nn.GELU(), nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 8)
)


def rows(seed=0):
    return torch.randn(50, 40, generator=torch.Generator().manual_seed(seed))


def test_values_are_the_networks_in_float64():
    found = bounded(NETWORK, rows())
    torch.testing.assert_close(found.value, NETWORK.double()(rows().double()).detach())
    NETWORK.float()


@pytest.mark.parametrize("seed", range(5))
def test_float32_is_within_the_bound_however_it_adds(seed):
    x = rows(seed)
    found = bounded(NETWORK, x)
    one_by_one = torch.cat([NETWORK(row[None]) for row in x])
    for evaluated in (NETWORK(x), one_by_one):
        gap = (evaluated.detach().double() - found.value).abs()
        assert (gap <= found.error).all()
    assert found.error.max() < 1e-3


def test_the_margin_is_the_least_distance_from_zero_beyond_the_error():
    layer = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -1.0]]))
    assert bounded(layer, torch.tensor([[3.0, 1.0]])).margin == pytest.approx(2.0, abs=1e-5)
    assert bounded(layer, torch.tensor([[3.0, 1.0], [1.0, 1.0]])).margin < 0


def test_layers_without_a_bound_are_refused():
    with pytest.raises(ValueError, match="rounding of LayerNorm is not bounded"):
        bounded(nn.Sequential(nn.LayerNorm(4)), torch.zeros(1, 4))
