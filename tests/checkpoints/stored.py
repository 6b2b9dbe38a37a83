"""Checkpoints that are easy to recognise, and a store with two of them."""

import torch

from treefold.checkpoints import Checkpoint, CheckpointStore


def checkpoint(step):
    """A checkpoint that is easy to recognise, and to see through if it is a mixture."""
    tensors = {"weight": torch.full((4, 5), step), "bias": torch.full((7,), float(step))}
    return Checkpoint(tensors, {"step": step, "loss": [step / 3]})


def step_of(found):
    values = {float(value) for tensor in found.tensors.values() for value in tensor.flatten()}
    assert {name: tuple(tensor.shape) for name, tensor in found.tensors.items()} == {
        "weight": (4, 5),
        "bias": (7,),
    }
    assert found.state["loss"] == [found.state["step"] / 3]
    assert values == {float(found.state["step"])}
    return found.state["step"]


def store_of_two(folder):
    """A store with the checkpoints 1 and 2."""
    folder.mkdir(exist_ok=True)
    store = CheckpointStore(folder)
    store.save(checkpoint(1))
    store.save(checkpoint(2))
    return store
