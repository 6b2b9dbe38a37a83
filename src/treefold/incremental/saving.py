"""Incremental sets on disk: tensors and plain data, checked before use, nothing unpickled."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from treefold.algebra import State, tensors_of
from treefold.checkpoints import Checkpoint, CheckpointStore
from treefold.incremental.counter import Blocks, Levels
from treefold.incremental.fingerprint import fingerprint, is_made_by
from treefold.incremental.tree_storage import HandleTable, TreeStorage

# How tensors make up a state: None for a tensor, or a tuple of such.
Structure: TypeAlias = tuple[Any, ...] | None


def save_set(
    folder: Path | str,
    kind: str,
    parts: Sequence[object],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
) -> None:
    """Write a set of some `kind` to a folder, in place of what was saved there before.

    `parts` made its states: the operator, and what comes before it. Only their fingerprint is kept.
    """
    store = CheckpointStore(Path(folder), kind, keep=1)
    store.folder.mkdir(parents=True, exist_ok=True)
    store.save(Checkpoint(tensors, {**state, "made_by": fingerprint(parts)}))


def load_set(
    folder: Path | str,
    kind: str,
    parts: Sequence[object],
    device: torch.device | str | None = None,
) -> Checkpoint:
    """Load what was saved; a ValueError if it is missing, damaged, or made by other parts.

    Its tensors are on `device`, or where the identity of the first part is.
    """
    saved = CheckpointStore(Path(folder), kind, keep=1).load()
    if saved is None:
        raise ValueError(f"{folder} holds no saved {kind}; give the folder that `save` was given")
    if not is_made_by(saved.state["made_by"], parts):
        raise ValueError(
            f"the {kind} in {folder} was made by another operator than this "
            f"{type(parts[0]).__name__}, by other parameters or with other options: its nodes "
            "would not fit; make the operator as it was, and load its parameters first"
        )
    device = device or _home_of(parts[0])
    return Checkpoint(
        {name: tensor.to(device) for name, tensor in saved.tensors.items()}, saved.state
    )


def pack_trees(
    storage: TreeStorage, elements: HandleTable
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The content of trees: every node, level by level, and the handles."""
    tensors = {
        "sizes": storage.sizes,
        "elements": storage.element[storage.places(0)],
        "generations": elements.generations,
    }
    for level in range(len(storage.levels)):
        tensors |= _named(f"level.{level}", storage.read(level, storage.places(level)))
    return tensors, {"levels": len(storage.levels), "structure": _structure(storage.like)}


def unpack_trees(saved: Checkpoint) -> tuple[TreeStorage, HandleTable]:
    """The trees that were packed, in blocks without gaps."""
    tensors, levels = saved.tensors, int(saved.state["levels"])
    states = [_state_of(saved, f"level.{level}") for level in range(levels)]
    storage = TreeStorage(states[0], tensors["sizes"])
    for level in range(min(levels, len(storage.levels))):
        storage.write(level, storage.places(level), states[level])
    slots, numbers = storage.places(0), tensors["elements"]
    storage.element[slots] = numbers
    free = torch.full_like(tensors["generations"], -1)
    sets = torch.zeros_like(free)
    sets[numbers] = torch.repeat_interleave(storage.sizes)
    elements = HandleTable(free.index_copy(0, numbers, slots), sets)
    elements.restore(tensors["generations"])
    return storage, elements


def pack_counters(
    counters: Sequence[Levels], like: State
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All blocks that wait in binary counters of states like `like`."""
    tensors = _named("like", like)
    for number, counter in enumerate(counters):
        for level, blocks in counter.items():
            prefix = f"counter.{number}.{level}"
            tensors |= {f"{prefix}.sets": blocks.sets, f"{prefix}.places": blocks.places}
            tensors |= _named(prefix, blocks.states)
    levels = [sorted(counter) for counter in counters]
    return tensors, {"levels": levels, "structure": _structure(like)}


def unpack_counters(saved: Checkpoint) -> tuple[list[Levels], State]:
    """The counters that were packed, and what their states are like."""
    counters = [
        {level: _blocks_of(saved, f"counter.{number}.{level}") for level in levels}
        for number, levels in enumerate(saved.state["levels"])
    ]
    return counters, _state_of(saved, "like")


def _home_of(op: object) -> torch.device:
    identity = getattr(op, "identity", ())
    return next((tensor.device for tensor in tensors_of(identity)), torch.device("cpu"))


def _blocks_of(saved: Checkpoint, prefix: str) -> Blocks:
    tensors = saved.tensors
    return Blocks(tensors[f"{prefix}.sets"], tensors[f"{prefix}.places"], _state_of(saved, prefix))


def _named(prefix: str, state: State) -> dict[str, Tensor]:
    return {f"{prefix}.{part}": tensor for part, tensor in enumerate(tensors_of(state))}


def _state_of(saved: Checkpoint, prefix: str) -> State:
    parts = count()

    def filled(structure: Structure) -> State:
        if structure is None:
            return saved.tensors[f"{prefix}.{next(parts)}"]
        return tuple(filled(part) for part in structure)

    return filled(saved.state["structure"])


def _structure(state: State) -> Structure:
    return tuple(map(_structure, state)) if isinstance(state, tuple) else None
