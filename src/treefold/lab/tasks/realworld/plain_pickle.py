"""Pickles read as data only: lists, dictionaries, numbers and tensors; nothing in them runs."""

import io
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class RefusedFile(ValueError):
    """A file asks for more than data, or is not whole."""


@dataclass(frozen=True)
class PickledStorage:
    """The bytes of a tensor's numbers, as `torch.save` wrote them; not looked at yet."""

    data: bytes


@dataclass(frozen=True)
class PickledTensor:
    """A tensor in a pickle; its numbers are read when they are asked for."""

    storage: PickledStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def array(self) -> np.ndarray:
        """The tensor's numbers."""
        numbers = _numbers(self.storage.data)
        width = numbers.itemsize
        try:
            return np.ndarray(
                shape=self.size,
                dtype=numbers.dtype,
                buffer=numbers,
                offset=self.offset * width,
                strides=[step * width for step in self.stride],
            )
        except (TypeError, ValueError):
            raise RefusedFile(
                f"a tensor of size {self.size} reaches beyond its {numbers.size} numbers"
            ) from None


@dataclass(frozen=True)
class _Announced:
    """Numbers that follow after the pickles of a storage."""

    dtype: np.dtype
    count: int


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> PickledTensor:
    if not isinstance(storage, PickledStorage):
        raise RefusedFile(f"a tensor is made of {type(storage).__name__}; expected its bytes")
    return PickledTensor(storage, int(offset), tuple(size), tuple(stride))


def _storage(data: Any) -> PickledStorage:
    if not isinstance(data, bytes):
        raise RefusedFile(f"a tensor's bytes are {type(data).__name__}; expected bytes")
    return PickledStorage(data)


# Names in the pickles of ZINC, and their replacements here.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
}
_NUMBER_TYPES: dict[tuple[str, str], Any] = {
    ("torch", "ByteStorage"): np.dtype("u1"),
    ("torch", "CharStorage"): np.dtype("i1"),
    ("torch", "ShortStorage"): np.dtype("<i2"),
    ("torch", "IntStorage"): np.dtype("<i4"),
    ("torch", "LongStorage"): np.dtype("<i8"),
    ("torch", "FloatStorage"): np.dtype("<f4"),
    ("torch", "DoubleStorage"): np.dtype("<f8"),
}


class _PlainUnpickler(pickle.Unpickler):
    allowed = _ALLOWED

    def find_class(self, module: str, name: str) -> Any:
        """The replacement for a name; all others are refused before anything is imported."""
        if (module, name) not in self.allowed:
            raise RefusedFile(f"it asks for {module}.{name}, which is no data")
        return self.allowed[module, name]


class _StorageUnpickler(_PlainUnpickler):
    allowed = _NUMBER_TYPES

    def persistent_load(self, pid: Any) -> _Announced:
        """The type and count of the numbers that a storage announces."""
        match pid:
            case ("storage", np.dtype() as dtype, _, _, int(count), *_):
                return _Announced(dtype, count)
        raise RefusedFile(f"a tensor's numbers are announced by {str(pid)[:60]}")


def _numbers(data: bytes) -> np.ndarray:
    """The numbers of a storage: five pickles announce them, then a count and the numbers follow."""
    file = io.BytesIO(data)
    _, _, system, announced, _ = (_load(_StorageUnpickler, file, "a tensor") for _ in range(5))
    if not isinstance(announced, _Announced) or not system.get("little_endian", True):
        raise RefusedFile("a tensor is stored in a way that is not known here")
    count = int.from_bytes(file.read(8), "little")
    content = file.read()
    if count != announced.count or len(content) != count * announced.dtype.itemsize:
        raise RefusedFile(f"a tensor has {len(content)} bytes for {announced.count} numbers")
    return np.frombuffer(content, announced.dtype)


def _load(unpickler: type[_PlainUnpickler], file: io.BufferedIOBase, name: str | Path) -> Any:
    try:
        return unpickler(file).load()
    except RefusedFile as error:
        raise RefusedFile(
            f"{name} is refused: {error}; expected lists, numbers and tensors. Use a file that "
            "you trust, or fetch it again"
        ) from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise RefusedFile(
            f"{name} cannot be read ({type(error).__name__}: {error}); expected a whole pickle: "
            "fetch it again"
        ) from error


def load_plain(file: io.BufferedIOBase, name: str | Path) -> Any:
    """Load a pickle, tensors as `PickledTensor`; a `RefusedFile` for anything but data."""
    return _load(_PlainUnpickler, file, name)
