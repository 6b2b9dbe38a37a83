"""A fingerprint of an operator: one short code for everything that decides its answers."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass

import torch
from torch import Tensor, nn

from treefold.saving import MADE_WITH

VERSION = 2

# Version 1 named classes by the file they were in. Classes that have moved since are listed here.
_FILES_IN_VERSION_1: dict[str, str] = {
    **dict.fromkeys(("ExactMonoid", "LogSumExp", "Max", "Min", "Sum"), "algebra.exact"),
    **dict.fromkeys(("Histogram", "Mode"), "algebra.histogram"),
    **dict.fromkeys(("BitwiseXor", "Gcd"), "algebra.integers"),
    **dict.fromkeys(("CountModulo", "Parity", "Residues", "SumModulo"), "algebra.modular"),
    "Product": "algebra.product",
    **dict.fromkeys(("KthMinimum", "TopK"), "algebra.selection"),
    **dict.fromkeys(("Mean", "Variance"), "algebra.statistics"),
    "BinaryGRU": "operators.binary_gru",
    "BinaryMLP": "operators.binary_mlp",
    **dict.fromkeys(("Coupling", "CouplingFlow"), "operators.bijection"),
    "Conjugated": "operators.conjugated",
    "GatedSelection": "operators.gated_selection",
    "Symmetrized": "operators.symmetrized",
}

_NO_OPTIONS = {*vars(nn.Module()), "training", MADE_WITH, "_selecting"}
"""Attributes that do not change the answers of an operator, or follow from others."""


def fingerprint(parts: Sequence[object], version: int = VERSION) -> str:
    """Return a code that operators and modules share if they give the same answers.

    It depends on the class of every part and of every part in it, on all parameters and buffers,
    and on the options: numbers, strings, tensors and objects of these among the attributes. It does
    not depend on devices, nor on the files of treefold that hold the classes.
    """
    digest = hashlib.sha256()
    for text in _Description(version).of(list(parts), set()):
        digest.update(len(text).to_bytes(8, "big") + text)
    return f"{version}:{digest.hexdigest()}"


def is_made_by(code: str, parts: Sequence[object]) -> bool:
    """Check parts against a code of this version or an earlier one."""
    version = code.partition(":")[0]
    return version in ("1", "2") and fingerprint(parts, int(version)) == code


class _Description:
    """Everything that is known about a part, as a stream of bytes."""

    def __init__(self, version: int) -> None:
        self.version = version

    def of(self, part: object, above: set[int]) -> Iterator[bytes]:
        """Describe a part piece by piece; `above` are the parts that contain it."""
        if isinstance(part, torch.device) or id(part) in above:
            return
        above = {*above, id(part)}
        if isinstance(part, Tensor):
            yield f"{part.dtype} {tuple(part.shape)}".encode()
            yield _content(part)
        elif isinstance(part, dict):
            for name in sorted(part, key=str):
                yield str(name).encode()
                yield from self.of(part[name], above)
        elif isinstance(part, list | tuple):
            yield f"{len(part)} of these".encode()
            for each in part:
                yield from self.of(each, above)
        else:
            yield self._name(part).encode()
            if _has_options(part):
                yield from self.of(_options(part), above)

    def _name(self, part: object) -> str:
        """Name a function or class; for an object, its class and, without options, its repr."""
        if isinstance(name := getattr(part, "__qualname__", None), str):
            return f"{self._home(getattr(part, '__module__', ''), name)}.{name}"
        name = type(part).__qualname__
        kind = f"{self._home(type(part).__module__, name)}.{name}"
        text = "" if _has_options(part) else repr(part)
        return kind if " at 0x" in text else f"{kind} {text}"  # an address means nothing

    def _home(self, module: str, name: str) -> str:
        """Name the module of a class; classes of treefold may move between its files."""
        if module.partition(".")[0] != "treefold":
            return module
        if self.version > 1:
            return "treefold"
        file = _FILES_IN_VERSION_1.get(name.partition(".")[0])
        return f"treefold.{file}" if file else module


def _has_options(part: object) -> bool:
    """Tell parts that compute, and so may do it in several ways, from plain values."""
    is_name = isinstance(getattr(part, "__qualname__", None), str)  # of a function or a class
    return not is_name and (callable(part) or is_dataclass(part))


def _options(part: object) -> dict[str, object]:
    """Collect the attributes of an object; of a module also its tensors and its modules."""
    found = dict(getattr(part, "__dict__", {}))
    if isinstance(part, nn.Module):
        found = {name: value for name, value in found.items() if name not in _NO_OPTIONS}
        found |= dict(part.named_parameters(recurse=False))
        found |= dict(part.named_buffers(recurse=False))
        found |= dict(part.named_children())
    return found


def _content(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
