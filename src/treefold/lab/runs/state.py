"""The state of a run as a checkpoint, and back into fresh objects, bit for bit.

A part is anything that changes while training: a module, an optimizer, a scheduler, a generator, a
dict of plain data. Its tensors get names such as `optimizer/state/3/exp_avg`; the rest is plain.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from treefold.checkpoints import Checkpoint
from treefold.plain import Plain, Reference, decode, encode

# Entries of `Checkpoint.state` that are not parts.
_RNG, _EXPECTED = "rng", "expected"


@runtime_checkable
class Stateful(Protocol):
    """Gives its state and takes it back: modules, optimizers, schedulers, scalers."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as plain data and tensors."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take the state back."""


# A Stateful, a Generator, or a dict of plain data; what else is given gets an explanation.
Part: TypeAlias = Any


def capture(*, rng: bool = True, **parts: Part) -> Checkpoint:
    """A copy of the state of all parts, and with `rng` of the global random generators.

    Call it between steps: gradients are not part of the state. A TypeError names what cannot be
    kept without pickle.
    """
    tensors: dict[str, Tensor] = {}
    state: dict[str, Any] = {_EXPECTED: {}}
    for name, part in parts.items():
        if name in (_RNG, _EXPECTED):
            raise ValueError(f"a part cannot be called {name}; choose another name")
        place = _place(name, part)
        state[name] = _plain_copy(_set_aside(_state_of(part, name), place, tensors), place)
        state[_EXPECTED][name] = _describe(part, place)
    if rng:
        state[_RNG] = _plain_copy(_set_aside(_rng_state(), _RNG, tensors), _RNG)
    return Checkpoint(tensors, state)


def restore(checkpoint: Checkpoint, /, *, rng: bool = True, **parts: Part) -> None:
    """Bring all parts, in place, to the state in which they were captured.

    A checkpoint may hold more parts than are asked for. One that does not fit is a ValueError that
    names the entries, and whatever goes wrong, all parts are left as they were.
    """
    _check_fit(checkpoint, rng, parts)
    before = capture(rng=rng, **parts)
    try:
        _load(checkpoint, rng, parts)
    except BaseException:
        _load(before, rng, parts)
        raise


def _load(checkpoint: Checkpoint, rng: bool, parts: dict[str, Part]) -> None:
    for name, part in parts.items():
        _load_part(part, _put_back(checkpoint.state[name], checkpoint.tensors))
    if rng:
        _load_rng_state(_put_back(checkpoint.state[_RNG], checkpoint.tensors))


# What a part's state is, and how it goes back.


def _place(name: str, part: Part) -> str:
    return f"generator/{name}" if isinstance(part, Generator) else name


def _state_of(part: Part, name: str) -> Any:
    if isinstance(part, Generator):
        return part.get_state()
    if isinstance(part, dict):
        return part
    if isinstance(part, Stateful):
        return part.state_dict()
    raise TypeError(
        f"{name} is of type {type(part).__qualname__}; expected a module, optimizer, scheduler, "
        "generator or dict"
    )


def _load_part(part: Part, state: Any) -> None:
    if isinstance(part, Generator):
        part.set_state(state)
    elif isinstance(part, dict):
        part.clear()
        part.update(state)
    elif isinstance(part, nn.Module):
        # An OrderedDict whose _metadata has the versions of the modules.
        current = part.state_dict()
        current.update(state)
        part.load_state_dict(current)
    elif isinstance(part, Optimizer):
        part.load_state_dict(_laid_out(state, part))
    else:
        part.load_state_dict(state)


def _laid_out(state: dict[str, Any], optimizer: Optimizer) -> dict[str, Any]:
    """The state with strides as in the parameters: they decide how sums are rounded."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, entries in state["state"].items():
        for entry, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameters[index].shape:
                like = torch.empty_like(parameters[index], dtype=value.dtype, device=value.device)
                entries[entry] = like.copy_(value)
    return state


# Tensors aside, plain data stays.


def _set_aside(value: Any, name: str, tensors: dict[str, Tensor]) -> Plain:
    """`value` with a `Reference` for each tensor, of which a copy is put into `tensors`."""
    if isinstance(value, Tensor):
        if name in tensors:
            raise ValueError(f"two tensors are called {name}; rename one of the parts")
        tensors[name] = value.detach().clone().cpu()
        return Reference(name)
    if isinstance(value, dict) and not isinstance(value, Counter):
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
    if isinstance(value, dict) and not isinstance(value, Counter):
        return {key: _put_back(entry, tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_put_back(entry, tensors) for entry in value)
    return value


def _plain_copy(value: Plain, place: str) -> Plain:
    """Proof that it can be written, and that nothing of it changes with the part."""
    return decode(encode(value, place))


# What a checkpoint expects of the parts it is restored into.


def _describe(part: Part, place: str) -> dict[str, str]:
    """Descriptions of the entries of a part, which must be the same to restore it."""
    if isinstance(part, Generator):
        return {place: f"a generator for {part.device.type}"}
    if isinstance(part, nn.Module):
        entries = part.state_dict().items()
        return {f"{place}/{name}": _describe_value(value) for name, value in entries}
    described = {place: "dict" if isinstance(part, dict) else type(part).__qualname__}
    if isinstance(part, Optimizer):
        for number, group in enumerate(part.param_groups):
            for index, parameter in enumerate(group["params"]):
                entry = f"{place}/param_groups/{number}/params/{index}"
                described[entry] = _describe_value(parameter)
    return described


def _describe_value(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__qualname__
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _check_fit(checkpoint: Checkpoint, rng: bool, parts: dict[str, Part]) -> None:
    expected = checkpoint.state.get(_EXPECTED)
    if expected is None:
        raise ValueError("the checkpoint was not made by `capture`, so no part can be restored")
    if rng and _RNG not in checkpoint.state:
        raise ValueError("the checkpoint has no random states; restore it with rng=False")
    problems: list[str] = []
    for name, part in parts.items():
        _state_of(part, name)
        if name not in expected:
            held = ", ".join(expected) or "none"
            raise ValueError(f"the checkpoint has no part {name}; its parts are {held}")
        problems += _differences(expected[name], _describe(part, _place(name, part)))
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


# The global random generators.


def _rng_state() -> dict[str, Any]:
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    legacy = np.random.get_state(legacy=False)
    assert isinstance(legacy, dict)
    state["numpy"] = {**legacy, "state": _lists(legacy["state"])}
    return state


def _load_rng_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    # Where devices have gone, nothing that was drawn there can be continued.
    for device, value in enumerate(state.get("cuda", [])[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(value, device)


def _lists(state: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in state.items()
    }
