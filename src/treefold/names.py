"""Names in registries, with a hint where one is misspelt."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


def by_name(registry: Mapping[str, T], name: str, what: str) -> T:
    """`registry[name]`, or a ValueError that suggests the nearest names."""
    if name in registry:
        return registry[name]
    near = get_close_matches(name, registry, n=3, cutoff=0.5)
    known = f"choose from {', '.join(registry)}" if registry else "there are none"
    hint = f"did you mean {' or '.join(near)}?" if near else known
    raise ValueError(f"unknown {what} {name!r}; {hint}")


def require_one_of(names: Iterable[str], name: str, what: str) -> None:
    """A ValueError that suggests the nearest names, if `name` is none of them."""
    by_name(dict.fromkeys(names), name, what)
