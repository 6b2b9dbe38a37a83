"""Checkpoints on disk: tensors and plain data, whole or not at all, and checked before use.

A save is two files, `last-000042.safetensors` and then `last-000042.json`. The second holds the
SHA-256 of the first and of itself, and writing it is what makes the save count. Nothing is ever
unpickled.
"""

import hashlib
import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from treefold.atomic import StorageError, write_atomically
from treefold.plain import Plain, decode, encode

VERSION = 1
_NUMBER = r"\d{6}|[1-9]\d{6,}"
"""Pattern of the number of a checkpoint, in the names of its files."""

_log = logging.getLogger("treefold")

# Known to every version of safetensors; tensors of other types are stored as their bytes.
_NATIVE = {
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
}


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a run must remember: tensors by name, and plain data."""

    tensors: dict[str, Tensor]
    state: dict[str, Plain]


class DamagedCheckpoint(ValueError):
    """There are checkpoints, but none is whole; the message names each and what is wrong."""


class CheckpointStore:
    """The newest `keep` checkpoints called `name` in a folder.

    One process saves; others may load meanwhile.
    """

    def __init__(self, folder: Path, name: str = "last", keep: int = 2) -> None:
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"{name!r} cannot begin a file name; use letters, digits, - and _")
        if keep < 1:
            raise ValueError(f"keep is {keep}; at least the newest checkpoint is kept: use 1 or 2")
        self.folder, self.name, self.keep = folder, name, keep
        self._damaged: set[int] = set()

    def exists(self) -> bool:
        """Return True if anything has been saved, even if it is damaged."""
        return bool(self._numbers("json"))

    def names(self) -> list[str]:
        """Their names, the newest last."""
        return [self._stem(number) for number in sorted(self._numbers("json") - self._damaged)]

    def save(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint, and then remove those that are too old.

        If the disk is full or read-only, this raises a `StorageError` and the earlier ones stay.
        """
        number = 1 + max(self._numbers("json"), default=0)
        data, described = pack(checkpoint.tensors)
        manifest = _seal(
            {"version": VERSION, "tensors": described, "state": encode(checkpoint.state, "state")}
        )
        try:
            write_atomically(self._path(number, "safetensors"), data)
            write_atomically(self._path(number, "json"), manifest)
        except StorageError:
            self._remove(number)
            raise
        self._remove_old()

    def load(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None if nothing was ever saved.

        Damaged ones are skipped with a warning in the log; a `DamagedCheckpoint` is raised if no
        other is left.
        """
        numbers = sorted(self._numbers("json"), reverse=True)
        self._mention_interrupted_saves(newest=max(numbers, default=0))
        reasons: list[str] = []
        for number in numbers:
            try:
                checkpoint = self._read(number)
            except Damage as damage:
                if not os.path.lexists(self._path(number, "json")):
                    return self.load()  # a save in another process has just replaced it
                self._damaged.add(number)
                reasons.append(str(damage))
                continue
            if reasons:
                _log.warning("%s; using %s", "; ".join(reasons), self._stem(number))
            return checkpoint
        if reasons:
            raise DamagedCheckpoint(
                f"no checkpoint in {self.folder} is whole: {'; '.join(reasons)}; "
                "restore one from a copy, or remove them to begin again"
            )
        return None

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """The checkpoint that one of its two files names, and no other.

        A ValueError if that is no name of a checkpoint, a `DamagedCheckpoint` if it is not whole.
        """
        found = re.fullmatch(rf"([\w-]+)-({_NUMBER})\.(json|safetensors)", path.name)
        if found is None:
            raise ValueError(f"{path} is no checkpoint; expected a file such as last-000042.json")
        try:
            return cls(path.parent, found[1])._read(int(found[2]))
        except Damage as damage:
            raise DamagedCheckpoint(f"{path.parent}: {damage}") from None

    def _read(self, number: int) -> Checkpoint:
        path = self._path(number, "json")
        manifest = _unseal(path.name, _contents(path))
        path = self._path(number, "safetensors")
        return Checkpoint(
            unpack(path.name, _contents(path), manifest["tensors"]), decode(manifest["state"])
        )

    def _mention_interrupted_saves(self, newest: int) -> None:
        for number in sorted(self._numbers("safetensors")):
            if number > newest:
                _log.warning(
                    "%s has no .json next to it: its save is not finished; it is not used",
                    self._path(number, "safetensors").name,
                )

    def _remove_old(self) -> None:
        """Keep the newest; of those known to be damaged, and of interrupted saves, keep none."""
        sound = self._numbers("json") - self._damaged
        kept = set(sorted(sound)[-self.keep :])
        for number in (self._numbers("json") | self._numbers("safetensors")) - kept:
            self._remove(number)

    def _remove(self, number: int) -> None:
        # The .json first: without it, the rest does not count as a checkpoint.
        for extension in ("json", "safetensors"):
            with suppress(OSError):
                os.unlink(self._path(number, extension))

    def _numbers(self, extension: str) -> set[int]:
        pattern = re.compile(rf"{re.escape(self.name)}-({_NUMBER})\.{extension}")
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        return {int(match[1]) for name in names if (match := pattern.fullmatch(name))}

    def _stem(self, number: int) -> str:
        return f"{self.name}-{number:06d}"

    def _path(self, number: int, extension: str) -> Path:
        return self.folder / f"{self._stem(number)}.{extension}"


class Damage(Exception):
    """A file is damaged; the message names it and the check that failed."""


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise Damage(f"{path.name} is missing") from None
    except OSError as error:
        raise Damage(f"{path.name} cannot be read: {error.strerror}") from None


def _seal(body: dict[str, Any]) -> bytes:
    """The one text for this content: its SHA-256 first, then the content in canonical form."""
    content = json.dumps(body, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).hexdigest()
    return f'{{"sha256":"{digest}","content":{content}}}\n'.encode()


def _unseal(name: str, data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)["content"]
        intact = _seal(body) == data
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Damage(f"{name} is torn or changed: it is not the JSON that was written") from None
    if not intact:
        raise Damage(f"{name} is changed: its SHA-256 does not fit its content")
    if body["version"] != VERSION:
        version = body["version"]
        raise Damage(f"{name} has format version {version}; this treefold reads {VERSION}")
    return dict(body)


def _safetensors() -> Any:
    """The library, which nothing but saving and loading needs."""
    try:
        import safetensors.torch  # noqa: PLC0415 (optional)
    except ImportError:
        raise ValueError("saving and loading need safetensors: pip install safetensors") from None
    return safetensors


def pack(tensors: dict[str, Tensor]) -> tuple[bytes, dict[str, Any]]:
    """The tensors as a safetensors file, and a description to check and unpack it."""
    stored, as_bytes = {}, {}
    memory: set[int] = set()
    for name, tensor in tensors.items():
        dense = _dense(name, tensor)
        if dense.dtype not in _NATIVE:
            as_bytes[name] = {"dtype": _dtype_name(dense), "shape": list(dense.shape)}
            dense = dense.reshape(-1).view(torch.uint8)
        address = dense.untyped_storage().data_ptr()
        # safetensors refuses tensors that share memory.
        stored[name] = dense.clone() if address in memory else dense
        memory.add(address)
    data: bytes = _safetensors().torch.save(stored)
    digest = hashlib.sha256(data).hexdigest()
    return data, {"bytes": len(data), "sha256": digest, "as_bytes": as_bytes}


def unpack(name: str, data: bytes, described: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors that `pack` has written to the file `name`; `Damage` if they are others."""
    if len(data) != described["bytes"]:
        raise Damage(f"{name} has {len(data)} bytes instead of {described['bytes']}")
    if hashlib.sha256(data).hexdigest() != described["sha256"]:
        raise Damage(f"{name} is changed: its SHA-256 is not the one that was written")
    library = _safetensors()
    try:
        tensors: dict[str, Tensor] = library.torch.load(data)
    except library.SafetensorError as error:
        raise Damage(f"{name} is not a safetensors file: {error}") from None
    for entry, was in described["as_bytes"].items():
        dtype = getattr(torch, was["dtype"])
        tensors[entry] = tensors[entry].view(dtype).reshape(was["shape"])
    return tensors


def _dense(name: str, tensor: Tensor) -> Tensor:
    """The same values, contiguous in the memory of the CPU."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise TypeError(
            f"{name} is a {tensor.layout} tensor on {tensor.device}; only ordinary dense tensors "
            "can be saved: convert it first"
        )
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
