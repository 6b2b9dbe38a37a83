"""Indices that are kept must serve training too, even if they were made in inference mode."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def lasting(make: Callable[P, T]) -> Callable[P, T]:
    """The same, but what it makes inside `torch.inference_mode()` are ordinary tensors."""

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode(False):
            return make(*args, **kwargs)

    return made
