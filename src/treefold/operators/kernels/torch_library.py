"""Functions of torch's own library, for compiled loops to call."""

import ctypes
from pathlib import Path

import torch


def address_in_torch(name: str) -> int | None:
    """Of a function of torch's library; None if it is not shown there."""
    for library in (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"):
        try:
            function = getattr(ctypes.CDLL(str(library)), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None
