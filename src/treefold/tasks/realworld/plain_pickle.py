"""Pickles read as data only: lists, dictionaries, numbers and tensors; nothing in them runs."""

import io
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor


class RefusedFile(ValueError):
    """A file asks for more than data, or is not whole."""


@dataclass(frozen=True)
class PickledStorage:
    """The bytes of a tensor's numbers, as `torch.save` wrote them; not looked at yet."""

    data: bytes


@dataclass(frozen=True)
class PickledTensor:
    """What a pickle says of a tensor; made only when it is asked for."""

    storage: PickledStorage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self) -> Tensor:
        """The tensor itself."""
        data = io.BytesIO(self.storage.data)
        storage = torch.load(data, map_location="cpu", weights_only=True)
        values = torch.tensor([], dtype=storage.dtype).set_(storage._untyped_storage)
        last = self.offset + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))
        if not self.offset >= 0 or not last < values.numel() or min(self.stride, default=0) < 0:
            raise RefusedFile(
                f"a tensor of size {self.size} reaches beyond its {values.numel()} numbers"
            )
        return values.as_strided(self.size, self.stride, self.offset).clone()


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> PickledTensor:
    if not isinstance(storage, PickledStorage):
        raise RefusedFile(f"a tensor is made of {type(storage).__name__}; expected its bytes")
    return PickledTensor(storage, int(offset), tuple(size), tuple(stride))


def _storage(data: Any) -> PickledStorage:
    if not isinstance(data, bytes):
        raise RefusedFile(f"a tensor's bytes are {type(data).__name__}; expected bytes")
    return PickledStorage(data)


# What the pickles of ZINC name, and what stands in for it here.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What stands in for a name; all others are refused before anything is imported."""
        if (module, name) not in _ALLOWED:
            raise RefusedFile(f"it asks for {module}.{name}, which is no data")
        return _ALLOWED[module, name]


def load_plain(file: BinaryIO, name: str | Path) -> Any:
    """What a pickle holds, tensors as `PickledTensor`; a `RefusedFile` for all but data."""
    try:
        return _PlainUnpickler(file).load()
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
