"""The state of a run as a checkpoint, and back into fresh objects, bit for bit.

A part is anything that changes while training: a module, an optimizer, a schedule, a dict of plain
data. Its tensors get names such as `optimizer/state/3/exp_avg`; the rest is plain. Chance has no
state: every step of a run draws from (seed, epoch, step).
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from treefold.checkpoints import Checkpoint
from treefold.plain import Plain, Reference, decode, encode

_EXPECTED = "expected"
"""The entry of `Checkpoint.state` with the descriptions of all parts."""

# A dict of plain data, or anything with `state_dict` and `load_state_dict`.
Part: TypeAlias = Any


def capture(**parts: Part) -> Checkpoint:
    """A copy of the state of all parts.

    Call it between steps: gradients are not part of the state. A TypeError names what cannot be
    saved without pickle.
    """
    tensors: dict[str, Tensor] = {}
    state: dict[str, Any] = {_EXPECTED: {}}
    for name, part in parts.items():
        held = part if isinstance(part, dict) else part.state_dict()
        # Encoded and decoded: a copy, and proof that it can be written.
        state[name] = decode(encode(_set_aside(held, name, tensors), name))
        state[_EXPECTED][name] = _describe(part, name)
    return Checkpoint(tensors, state)


def restore(checkpoint: Checkpoint, /, **parts: Part) -> None:
    """Bring all parts, in place, to the state in which they were captured.

    A checkpoint may hold more parts than are asked for. One that does not fit is a ValueError that
    names the entries, and then nothing is restored.
    """
    _check_fit(checkpoint, parts)
    states = {name: _put_back(checkpoint.state[name], checkpoint.tensors) for name in parts}
    for name, part in parts.items():
        _load(part, states[name])


def _load(part: Part, state: Any) -> None:
    if isinstance(part, dict):
        part.clear()
        part.update(state)
    elif isinstance(part, nn.Module):
        # An OrderedDict whose _metadata has the versions of the modules.
        current = part.state_dict()
        current.update(state)
        part.load_state_dict(current)
    else:
        part.load_state_dict(_laid_out(state, part) if isinstance(part, Optimizer) else state)


def _laid_out(state: dict[str, Any], optimizer: Optimizer) -> dict[str, Any]:
    """The state with strides as in the parameters: they decide how sums are rounded."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, entries in state["state"].items():
        for entry, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameters[index].shape:
                like = torch.empty_like(parameters[index], dtype=value.dtype, device=value.device)
                entries[entry] = like.copy_(value)
    return state


def _set_aside(value: Any, name: str, tensors: dict[str, Tensor]) -> Plain:
    """`value` with a `Reference` for each tensor, of which a copy is put into `tensors`."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone().cpu()
        return Reference(name)
    if isinstance(value, dict):
        return {key: _set_aside(entry, f"{name}/{key}", tensors) for key, entry in value.items()}
    if type(value) in (list, tuple):
        entries = enumerate(value)
        return type(value)(_set_aside(entry, f"{name}/{n}", tensors) for n, entry in entries)
    return value


def _put_back(value: Plain, tensors: dict[str, Tensor]) -> Any:
    """A new `value` with a copy of the tensor for each `Reference`."""
    if isinstance(value, Reference):
        if value.name not in tensors:
            raise ValueError(f"the checkpoint lacks the tensor {value.name}; load it again")
        return tensors[value.name].clone()
    if isinstance(value, dict):
        return {key: _put_back(entry, tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_put_back(entry, tensors) for entry in value)
    return value


def _describe(part: Part, name: str) -> dict[str, str]:
    """Descriptions of the entries of a part, which must be the same to restore it."""
    if isinstance(part, nn.Module):
        entries = part.state_dict().items()
        return {f"{name}/{entry}": _describe_value(value) for entry, value in entries}
    described = {name: type(part).__qualname__}
    if isinstance(part, Optimizer):
        for number, group in enumerate(part.param_groups):
            for index, parameter in enumerate(group["params"]):
                entry = f"{name}/param_groups/{number}/params/{index}"
                described[entry] = _describe_value(parameter)
    return described


def _describe_value(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__qualname__
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _check_fit(checkpoint: Checkpoint, parts: dict[str, Part]) -> None:
    expected = checkpoint.state.get(_EXPECTED, {})
    problems: list[str] = []
    for name, part in parts.items():
        if name not in expected:
            held = ", ".join(expected) or "none"
            raise ValueError(f"the checkpoint has no part {name}; its parts are {held}")
        problems += _differences(expected[name], _describe(part, name))
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise ValueError(
            f"the checkpoint does not fit: {'; '.join(problems[:5])}{more}; "
            "build the parts as they were when it was saved"
        )


def _differences(expected: dict[str, str], given: dict[str, str]) -> Iterator[str]:
    for entry in {**expected, **given}:
        saved, here = expected.get(entry, "missing"), given.get(entry, "missing")
        if saved != here:
            yield f"{entry} is {saved} in the checkpoint, but {here} here"
