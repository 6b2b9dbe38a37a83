import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian
from trees import normal

from treefold.operators import CouplingFlow


def lively(channels, **options):
    """A flow far from the identity, as after training."""
    torch.manual_seed(0)
    flow = CouplingFlow(channels, **options).double()
    for parameter in flow.parameters():
        nn.init.normal_(parameter, std=0.7)
    return flow


@pytest.mark.parametrize("channels", [2, 3, 8])
@pytest.mark.parametrize("num_layers", [1, 2, 5])
def test_there_and_back_is_where_it_started(channels, num_layers):
    flow, x = lively(channels, num_layers=num_layers), 3 * normal(20, 2, channels)
    torch.testing.assert_close(flow.inverse(flow(x)), x)
    torch.testing.assert_close(flow(flow.inverse(x)), x)
    assert (flow(x) - x).abs().max() > 0.1


def test_two_layers_change_every_channel_and_one_leaves_half_alone():
    x = normal(20, 5)
    moved = [(lively(5, num_layers=layers)(x) - x).abs().amax(0) > 1e-3 for layers in (1, 2)]
    assert [changed.sum().item() for changed in moved] == [3, 5]


def test_every_output_depends_on_every_input():
    flow = lively(6)
    assert (jacobian(flow, normal(6)).abs() > 1e-9).all()


def test_it_never_folds_space_onto_itself():
    flow = lively(4)
    determinants = [torch.linalg.det(jacobian(flow, x)) for x in normal(10, 4)]
    assert all(abs(determinant) > 1e-6 for determinant in determinants)


def test_a_fresh_flow_is_near_the_identity():
    torch.manual_seed(0)
    x = normal(50, 8, dtype=torch.float32)
    assert (CouplingFlow(8)(x) - x).abs().mean() < 0.2


def test_resetting_draws_anew_and_starts_near_the_identity_again():
    flow, x = lively(8).float(), normal(50, 8, dtype=torch.float32)
    before = [parameter.clone() for parameter in flow.parameters()]
    flow.reset_parameters()
    assert all(
        not torch.equal(old, new) for old, new in zip(before, flow.parameters(), strict=True)
    )
    assert (flow(x) - x).abs().mean() < 0.2


def test_one_channel_is_refused():
    with pytest.raises(ValueError, match="1 channel cannot be cut in halves; expected 2 or more"):
        CouplingFlow(1)


def test_no_layers_are_refused():
    with pytest.raises(ValueError, match="0 layers; expected at least 1"):
        CouplingFlow(4, num_layers=0)
