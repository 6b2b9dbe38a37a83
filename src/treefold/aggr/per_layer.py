"""An aggregator of its own for every layer of a ready model, as wide as the layer's messages."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import Aggregation

from treefold.aggr.registry import aggregator

Model = TypeVar("Model", bound=nn.Module)


def aggregator_per_layer(
    model: Model, make: str | Callable[[int], Aggregation], *inputs: Any, **named_inputs: Any
) -> Model:
    """Replace the aggregator of every layer of PyG in `model` by one that it shares with none.

    `make` is a name of the registry, or gives an aggregator for a number of channels. PyG's models
    hand the same `aggr=` to all layers, whose messages may differ in width; so the model is called
    with the inputs once, to see how wide they are. Layers keep all other weights.
    """
    layers = [part for part in model.modules() if isinstance(part, MessagePassing)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layer of PyG (MessagePassing)")
    messages = _messages(model, layers, inputs, named_inputs)
    for layer in layers:
        seen = messages.get(id(layer))
        if seen is None:
            raise ValueError(
                f"{layer} aggregates no messages of these inputs; give inputs that reach all layers"
            )
        width = seen.shape[-1]
        made = aggregator(make, width) if isinstance(make, str) else make(width)
        _require_width(made, width)
        layer.aggr_module = made.to(seen.device, seen.dtype).train(layer.training)
        # What PyG's own constructor does: no aggregation by a product with a sparse matrix.
        layer.aggr, layer.fuse = str(made), False
    return model


def _messages(
    model: nn.Module, layers: list[MessagePassing], inputs: Any, named_inputs: Any
) -> dict[int, Tensor]:
    """The messages that each layer aggregates, by the layer's id."""
    seen: dict[int, Tensor] = {}

    def note(layer: MessagePassing, given: Any, made: Tensor) -> None:
        seen[id(layer)] = made

    hooks = [layer.register_message_forward_hook(note) for layer in layers]
    fused = [(layer, layer.fuse) for layer in layers]
    modes = [(part, part.training) for part in model.modules()]
    try:
        for layer in layers:
            layer.fuse = False
        with torch.no_grad():
            model.eval()(*inputs, **named_inputs)
    finally:
        for hook in hooks:
            hook.remove()
        for layer, fuse in fused:
            layer.fuse = fuse
        for part, mode in modes:
            part.training = mode
    return seen


def _require_width(made: Aggregation, width: int) -> None:
    out = getattr(made, "out_channels", width)
    if out != width:
        raise ValueError(
            f"{made} makes {out} channels of {width}, and layers of a ready model expect as many "
            "as their messages have; use an aggregator that keeps the width"
        )
