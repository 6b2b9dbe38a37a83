"""Monoids: an operator, its identity, and the states it acts on."""

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import torch
from torch import Tensor

# An element of a monoid, many of them stacked along the first axis: one tensor or a tuple of them.
State: TypeAlias = Tensor | tuple[Any, ...]


@runtime_checkable
class Monoid(Protocol):
    """An operator `op(a, b)` with its `op.identity`; feature axes are open.

    `a` and `b` are stacks of elements, `[n, *feature]` (or tuples of such tensors); `identity` has
    the shape of one element, or fewer axes if it broadcasts to one.
    """

    @property
    def identity(self) -> State:
        """The element e with e ⊕ a = a = a ⊕ e."""
        ...

    # `Any` because each monoid takes its own kind of state: a tensor, or tuples of a fixed form.
    def __call__(self, a: Any, b: Any, /) -> State:
        """Combine two stacks of elements, one by one."""
        ...


def require_monoid(op: object) -> None:
    """Refuse what is no monoid, with a word on what was probably meant."""
    if isinstance(op, type):
        raise ValueError(f"got the class {op.__name__}; expected one of it: {op.__name__}(...)")
    require_no_owner(op)
    if not isinstance(op, Monoid):
        given = f"a {type(op).__name__}" if isinstance(op, torch.nn.Module) else f"{op!r:.60}"
        raise ValueError(
            f"got {given}; expected an operator: called with two stacks of elements, and with "
            "an `identity`"
        )


def require_no_owner(op: object) -> None:
    """Refuse what is no monoid but has one as its operator, such as an aggregator."""
    if isinstance(getattr(op, "operator", None), Monoid) and not isinstance(op, Monoid):
        raise ValueError(f"got a {type(op).__name__}; expected its operator: give `.operator`")


def require_elements(op: object, given: State, what: str = "rows") -> None:
    """Refuse a stack of what cannot be elements of `op`, because its identity is none of them."""

    def fits(identity: Tensor, given: Tensor) -> Tensor:
        shape, element = tuple(identity.shape), tuple(given.shape[1:])
        axes = zip(reversed(shape), reversed(element), strict=False)
        if len(shape) > len(element) or any(want not in (1, has) for want, has in axes):
            expected = ", ".join(["n", "...", *map(str, shape)])
            raise ValueError(
                f"{what} have shape {tuple(given.shape)}; expected [{expected}], because an "
                f"element of {type(op).__name__} has shape {list(shape)}"
            )
        return given

    require_monoid(op)
    stack_size(given)
    map_state(fits, cast(Monoid, op).identity, given)


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """Apply `function` to the tensors of one or several states of the same structure."""
    first = states[0]
    for state in states:
        if _arity(state) != _arity(first):
            raise ValueError(f"states differ in structure: {describe(first)} and {describe(state)}")
    if isinstance(first, Tensor):
        return function(*states)
    return tuple(map_state(function, *parts) for parts in zip(*states, strict=True))


def tensors_of(state: State) -> list[Tensor]:
    """All tensors of a state, in order."""
    if isinstance(state, Tensor):
        return [state]
    return [tensor for part in state for tensor in tensors_of(part)]


def describe(state: State) -> str:
    """The structure of a state in words, for error messages: `(Tensor, Tensor)`."""
    if isinstance(state, tuple):
        return "(" + ", ".join(describe(part) for part in state) + ")"
    return type(state).__name__


def stack_size(*states: State) -> int:
    """The number of elements stacked along the first axis, the same in every tensor."""
    shapes = [tuple(tensor.shape) for state in states for tensor in tensors_of(state)]
    sizes = {shape[:1] for shape in shapes}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            f"tensors of shapes {shapes} are no stack of elements; give all of them one first axis"
        )
    return shapes[0][0]


def take(state: State, index: Tensor | slice | int) -> State:
    """The elements at `index` of a stack: `tensor[index]` for every tensor of the state."""
    return map_state(lambda tensor: tensor[index], state)


def extremes(dtype: torch.dtype) -> tuple[float | int, float | int]:
    """The lowest and the highest value of a type: infinities, or the ends of an integer range."""
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return -math.inf, math.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def identity_like(op: Monoid, state: State) -> State:
    """The identity of `op` in the shape, type and place of `state`, as a view where possible.

    Where `state` holds integers, an infinite identity becomes the extreme value of their type.
    """
    return map_state(_expand_identity, op.identity, state)


def _expand_identity(identity: Tensor, like: Tensor) -> Tensor:
    if identity.is_floating_point() and not like.is_floating_point() and not like.is_complex():
        lowest, highest = extremes(like.dtype)
        low, high = identity == -math.inf, identity == math.inf
        identity = identity.masked_fill(low | high, 0).to(like.dtype)
        identity = identity.masked_fill(low, lowest).masked_fill(high, highest)
    if _is_number(identity) and not like.is_cpu:
        identity = like.new_full((), identity.item())  # a copy to the device would be waited for
    return identity.to(device=like.device, dtype=like.dtype).expand_as(like)


def _is_number(identity: Tensor) -> bool:
    is_free = identity.dim() == 0 and identity.is_cpu and not identity.requires_grad
    return is_free and not torch.compiler.is_compiling()


def _arity(state: State) -> int | None:
    return len(state) if isinstance(state, tuple) else None
