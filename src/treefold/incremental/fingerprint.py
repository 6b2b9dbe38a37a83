"""Which operator made this: one short code for all that decides what an operator answers."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass

import torch
from torch import Tensor, nn

VERSION = "1:"
"""What a fingerprint begins with, so that another way of making them can be told from this one."""

_NO_OPTIONS = {*vars(nn.Module()), "training"}
"""What every module has; whether it is in training is not what it is."""


def fingerprint(parts: Sequence[object]) -> str:
    """A code that operators and modules share if they give the same answers, wherever they lie.

    It depends on the class of every part and of every part in it, on all parameters and buffers,
    and on the options: numbers, strings, tensors and objects of these among the attributes.
    """
    digest = hashlib.sha256()
    for text in _described(list(parts), set()):
        digest.update(len(text).to_bytes(8, "big") + text)
    return VERSION + digest.hexdigest()


def _described(part: object, above: set[int]) -> Iterator[bytes]:
    """Everything that is known about a part, piece by piece; `above` are those it lies in."""
    if isinstance(part, torch.device) or id(part) in above:
        return
    above = {*above, id(part)}
    if isinstance(part, Tensor):
        yield f"{part.dtype} {tuple(part.shape)}".encode()
        yield _content(part)
    elif isinstance(part, dict):
        for name in sorted(part, key=str):
            yield str(name).encode()
            yield from _described(part[name], above)
    elif isinstance(part, list | tuple):
        yield f"{len(part)} of these".encode()
        for each in part:
            yield from _described(each, above)
    else:
        yield _name(part).encode()
        if _has_options(part):
            yield from _described(_options(part), above)


def _has_options(part: object) -> bool:
    """Whether a part computes, and so may do it in several ways: operators, modules, monoids."""
    is_name = isinstance(getattr(part, "__qualname__", None), str)  # of a function, or of a class
    return not is_name and (callable(part) or is_dataclass(part))


def _options(part: object) -> dict[str, object]:
    """The attributes that an object keeps; of a module also its tensors and the modules in it."""
    found = dict(getattr(part, "__dict__", {}))
    if isinstance(part, nn.Module):
        found = {name: value for name, value in found.items() if name not in _NO_OPTIONS}
        found |= dict(part.named_parameters(recurse=False))
        found |= dict(part.named_buffers(recurse=False))
        found |= dict(part.named_children())
    return found


def _name(part: object) -> str:
    """The name of a function or class; else the class of an object, and what it says it is."""
    if isinstance(name := getattr(part, "__qualname__", None), str):
        return f"{getattr(part, '__module__', '')}.{name}"
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    said = "" if _has_options(part) else repr(part)
    return kind if " at 0x" in said else f"{kind} {said}"  # an address says nothing


def _content(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
