"""Operations of torch in C++: loading them, and what torch wants to know of each."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from treefold.operators.engine.building import CannotBuild, capability, is_built, library

_log = logging.getLogger("treefold")


@dataclass(frozen=True)
class Operation:
    """The operations `treefold::name` and `treefold::name_backward`.

    The first takes `num_inputs` tensors that have gradients, or None in their place; `num_fixed`
    tensors that have none; and settings, the last of which is true to save what a gradient
    needs. Its results are `num_outputs` that have gradients, and what is saved. The second takes
    the gradients of those, all tensors of the first, the last of its outputs and what it saved, and
    the other settings. It gives the gradients of the inputs.
    """

    name: str
    num_inputs: int
    num_fixed: int
    num_outputs: int
    empty: Callable[..., tuple[Tensor, ...]]
    """The results without values."""
    plain: Callable[..., Sequence[Tensor]]
    """The results that have gradients, in plain operations."""
    has_inner: bool = False
    """True if rows may have inner axes: a batch of rows is one axis more."""

    @cached_property
    def call(self) -> Callable[..., tuple[Tensor, ...]]:
        """The first, once it is loaded."""
        return getattr(torch.ops.treefold, self.name)  # type: ignore[no-any-return]

    @cached_property
    def backward(self) -> Callable[..., tuple[Tensor, ...]]:
        """The second."""
        return getattr(torch.ops.treefold, f"{self.name}_backward")  # type: ignore[no-any-return]

    def register(self) -> None:
        """Describe both to torch."""
        name, backward = f"treefold::{self.name}", f"treefold::{self.name}_backward"
        torch.library.register_fake(name, self.empty)
        torch.library.register_fake(backward, self._empty_gradients)
        torch.library.register_autograd(name, self._differentiate, setup_context=self._remember)
        torch.library.register_vmap(name, self._over_batch)
        torch.library.register_vmap(backward, _one_by_one(self.backward))

    def _over_batch(self, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        if not self.has_inner or in_dims[0] is None or any(dim is not None for dim in in_dims[1:]):
            return _one_by_one(self.call)(info, in_dims, *args)
        made = self.call(args[0].movedim(in_dims[0], 1), *args[1:])
        return made, (1,) * len(made)

    def _empty_gradients(self, *arguments: Any) -> tuple[Tensor, ...]:
        inputs = arguments[self.num_outputs :][: self.num_inputs]
        like = inputs[0]
        return tuple(like.new_empty(0 if each is None else each.shape) for each in inputs)

    def _remember(self, ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        num_tensors = self.num_inputs + self.num_fixed
        ctx.save_for_backward(*inputs[:num_tensors], *output[self.num_outputs - 1 :])
        ctx.settings = inputs[num_tensors:]
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)

    def _differentiate(self, ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved, given = ctx.saved_tensors, grads[: self.num_outputs]
        inputs, tensors = saved[: self.num_inputs], saved[: self.num_inputs + self.num_fixed]
        found: Sequence[Tensor | None]
        if torch.is_grad_enabled():  # to be differentiated again: through plain operations
            with torch.autocast("cpu", enabled=False):
                outputs = self.plain(*tensors, *ctx.settings)
            found = differentiable_gradients(outputs, inputs, given)
        else:
            made = self.backward(*given, *saved, *ctx.settings[:-1])
            found = [None if x is None else grad for x, grad in zip(inputs, made, strict=True)]
        return (*found, *(None,) * (self.num_fixed + len(ctx.settings)))


def differentiable_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor | None], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient by each input, from outputs in plain operations; None where none is wanted."""
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [each for each in inputs if each is not None and each.requires_grad]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given],
            wanted,
            [grad for _, grad in given],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(
        next(found) if each is not None and each.requires_grad else None for each in inputs
    )


def _one_by_one(call: Callable[..., tuple[Tensor, ...]]) -> Callable[..., Any]:
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        results = [
            call(
                *(
                    arg if dim is None else arg.select(dim, i)
                    for arg, dim in zip(args, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        made = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
        return made, (0,) * len(made)

    return vmap


_OPERATIONS: list[Operation] = []


def compiled(operation: Operation) -> Operation:
    """Remember an operation; it is registered once the library is loaded."""
    _OPERATIONS.append(operation)
    return operation


@cache
def why_not() -> str | None:
    """None if the operations are there; they are loaded, and compiled at the first use of all."""
    if os.environ.get("TREEFOLD_ENGINE") == "torch":
        return "TREEFOLD_ENGINE is torch"
    try:
        torch.ops.load_library(library())
        for operation in _OPERATIONS:
            operation.register()
    except (CannotBuild, OSError) as error:
        reason = "; ".join(str(each) for each in (error, error.__cause__) if each)
        _log.warning("treefold: folds run in plain torch: %s", reason)
        return reason
    _log.info("folds run compiled for %s", capability())
    return None


def can_compute(*tensors: Tensor | None) -> bool:
    """Return True if compiled operations take such tensors, here and now."""
    if (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    ):
        return False
    kind = None
    for each in tensors:
        if each is None:
            continue
        kind = each.dtype if kind is None else kind
        if type(each) not in (Tensor, nn.Parameter) or not each.is_cpu or each.dtype != kind:
            return False
    return kind in (torch.float32, torch.float64) and why_not() is None


def kernels_in_use() -> str:
    """The backend of folds on this CPU: `C++ for AVX512`, or `torch`."""
    return f"C++ for {capability()}" if why_not() is None else "torch"


def release() -> None:
    """Give the memory that compiled folds keep, and nobody uses, back to the system."""
    if why_not.cache_info().currsize and why_not() is None:
        torch.ops.treefold.release()


def limit_threads(num_numbers: int, channels: int) -> list[int] | None:
    """Let this thread fold so many numbers alone, if they take less than about a millisecond.

    Threads that share work wait for the last of them. Beside other busy processes one may have to
    wait for a core, for milliseconds each time. Other threads of the process keep their number,
    which `torch.set_num_threads` would change. The result is for `reset_threads`. Nothing changes,
    and the result is None, where there is one thread or the operations are not built.
    """
    if num_numbers * (12 * channels + 200) >= 1 << 25 or torch.get_num_threads() == 1:  # threads.h
        return None
    is_at_hand = why_not.cache_info().currsize or _is_built()  # without compiling them now
    if not is_at_hand or why_not() is not None:
        return None
    return torch.ops.treefold.use_threads([1, 1])  # type: ignore[no-any-return]


def reset_threads(before: list[int] | None) -> None:
    """Undo `limit_threads`."""
    if before is not None:
        torch.ops.treefold.use_threads(before)


_is_built = cache(is_built)
"""Asked once: the answer takes as long as a small fold."""
