import pytest
import torch
from torch import nn
from torch.autograd.functional import jacobian
from trees import normal, weighted

from treefold.operators import CouplingFlow
from treefold.operators.bijection import Coupling
from treefold.operators.engine.operations import why_not


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


compiled = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")


def layer_and_rows(channels, swap, dtype=torch.float64):
    torch.manual_seed(0)
    layer = Coupling(channels, 2 * channels + 1, swap).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.7 if channels < 9 else 0.1)
    return layer.to(dtype), normal(70, 3, channels).to(dtype).requires_grad_()


@compiled
@pytest.mark.parametrize("direction", ["forward", "inverse"])
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("channels", [2, 5, 33])
def test_compiled_layers_have_the_values_and_gradients_of_plain_ones(
    channels, swap, direction, monkeypatch
):
    layer, x = layer_and_rows(channels, swap)
    found = []
    for is_plain in (False, True):
        if is_plain:
            monkeypatch.setattr("treefold.operators.bijection.can_compute", lambda *_: False)
        out = getattr(layer, direction)(x)
        loss = weighted(out)
        found.append([out, *torch.autograd.grad(loss, [x, *layer.parameters()])])
    torch.testing.assert_close(*found)


@compiled
def test_single_precision_agrees_with_double_and_threads_in_rounding_only():
    found = []
    for dtype, num_threads in ((torch.float64, 1), (torch.float32, 1), (torch.float32, 2)):
        torch.set_num_threads(num_threads)  # set back by a fixture
        layer, x = layer_and_rows(64, True, dtype)
        x = x.detach().repeat(40, 1, 1).requires_grad_()
        out = layer(x)
        gradients = torch.autograd.grad(out.square().mean(), [x, *layer.parameters()])
        found.append([each.double() for each in (out, *gradients)])
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[2], found[1], atol=1e-4, rtol=1e-4)


@compiled
@pytest.mark.parametrize("inverse", [False, True])
def test_torch_finds_nothing_wrong_with_the_operations(inverse):
    layer, x = layer_and_rows(4, False)
    tensors = (x, *layer.parameters())
    operation = torch.ops.treefold.coupling
    torch.library.opcheck(operation.default, (*tensors, False, inverse, True))
    with torch.no_grad():
        out, saved = operation(*tensors, False, inverse, True)
        torch.library.opcheck(
            torch.ops.treefold.coupling_backward.default,
            (normal(*out.shape), *tensors, out, saved, False, inverse),
            test_utils=["test_schema", "test_faketensor"],
        )


def test_gradients_can_be_differentiated_again():
    layer, x = layer_and_rows(3, True)
    assert torch.autograd.gradgradcheck(layer, (x[:2, :1].detach().requires_grad_(),))
