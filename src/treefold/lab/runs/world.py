"""The world a run lives in: devices, precision and processes, all through Lightning Fabric.

One process is a world of size one: no other file asks how many there are.
"""

import atexit
import logging
import os
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from treefold.lab.runs.precision import (
    FULL,
    PRECISIONS,
    check_precision,
    fabric_options,
    leave_inputs,
    leave_unscaling,
    take_any_floats,
)
from treefold.names import by_name
from treefold.operators import kernels_in_use

LEAST_SCALE = 2.0**-14
"""If a loss of 16-mixed is scaled down further, it is not the scale that makes infinities."""

SECONDS_TO_LET_GO = 0.1
"""Gloo's threads drop Python objects of the last backward pass a moment after it, and are aborted,
with the whole process, if Python has ended by then."""


class FirstProcessFailed(RuntimeError):
    """The first process has failed, and its error names the reason."""


DEVICES: dict[str, Callable[[], bool]] = {
    "auto": lambda: True,
    "cpu": lambda: True,
    "cuda": torch.cuda.is_available,
    "mps": torch.backends.mps.is_available,
}
"""A check for each device, by name."""


def require_device(device: str) -> None:
    """A ValueError for a device that is unknown, or not there."""
    if not by_name(DEVICES, device, "device")():
        raise ValueError(
            f"device is {device}, and torch finds none on this machine; use --device cpu or auto"
        )


class World:
    """The place where a model is trained: `device`, processes, and what passes between them.

    Under torchrun the processes are those that it has started, on however many nodes.
    """

    def __init__(
        self, device: str = "cpu", precision: str = FULL, processes: int | None = None
    ) -> None:
        require_device(device)
        check_precision(precision, device)
        self.precision = precision
        here, nodes = _layout(processes)
        for name in ("lightning.fabric", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from lightning_fabric import Fabric  # noqa: PLC0415  (it takes a second to import)

            strategy = "ddp" if here * nodes > 1 else "auto"
            self._fabric = Fabric(
                accelerator=device,
                devices=here,
                num_nodes=nodes,
                strategy=strategy,
                **fabric_options(precision, device),
            )
            self._plugin: Any = self._fabric.strategy.precision
            if self._plugin.precision != precision:
                raise ValueError(
                    f"precision is {precision}, which Fabric replaces by {self._plugin.precision} "
                    f"on device {device}; ask for {self._plugin.precision}"
                )
            self._fabric.launch()
        if self.size > 1:
            atexit.register(time.sleep, SECONDS_TO_LET_GO)
        leave_inputs(self._plugin)
        self._first_scale = self._plugin.state_dict()

    @property
    def rank(self) -> int:
        """The number of this process."""
        return int(self._fabric.global_rank)

    @property
    def size(self) -> int:
        """The number of processes."""
        return int(self._fabric.world_size)

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self._fabric.device

    @property
    def scaler(self) -> Any:
        """The scaler of the losses of 16-mixed, which changes while training; None elsewhere."""
        return getattr(self._plugin, "scaler", None)

    def described(self) -> dict[str, Any]:
        """Plain data about it, for a record."""
        return {
            "device": self.device.type,
            "precision": self.precision,
            "processes": self.size,
            "threads": torch.get_num_threads(),
            "kernels": kernels_in_use(),
        }

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The model and the optimiser, on the device and joined to those of other processes."""
        take_any_floats(model, self.precision)
        if self.scaler is not None:
            leave_unscaling(optimizer)
            self.scaler.load_state_dict(self._first_scale)  # not that of an earlier model
        wrapped: tuple[nn.Module, Optimizer] = self._fabric.setup(model, optimizer)
        return wrapped

    def place(self, model: nn.Module) -> nn.Module:
        """A model that is only to answer, on the device and in the precision."""
        take_any_floats(model, self.precision)
        placed: nn.Module = self._fabric.setup_module(model.to(PRECISIONS[self.precision]))
        return placed

    def computing(self) -> AbstractContextManager[Any]:
        """Inside, parts of a network that are called by themselves compute as in the whole."""
        context: AbstractContextManager[Any] = self._plugin.forward_context()
        return context

    def seed(self, seed: int) -> None:
        """Seed what is drawn here; `torch.manual_seed` takes a millisecond to reach absent GPUs."""
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def backward(self, loss: Tensor) -> None:
        """Gradients, averaged over processes."""
        self._fabric.backward(loss)

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float) -> Tensor:
        """Clip the gradient's norm; returns the norm before."""
        norm = self._fabric.clip_gradients(
            model, optimizer, max_norm=max_norm, error_if_nonfinite=False
        )
        assert norm is not None
        return norm

    def skips_overflow(self) -> bool:
        """True if a step with gradients that are not finite is left out, and the next one scaled
        down: that is how 16-mixed finds its scale."""
        return self.scaler is not None and self.scaler.get_scale() > LEAST_SCALE

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over processes."""
        total: Any = self._fabric.all_reduce(numbers, reduce_op="sum")
        return total if isinstance(total, Tensor) else torch.as_tensor(total)

    def any(self, flag: bool) -> bool:
        """True if the flag is true in any process."""
        return flag if self.size == 1 else bool(self.sum(torch.tensor(float(flag))) > 0)

    def first(self, action: Callable[[], None]) -> None:
        """Act in the first process while the others wait; what goes wrong there ends them too."""
        error: Exception | None = None
        if self.rank == 0:
            try:
                action()
            except Exception as found:
                error = found
        if self.any(error is not None):
            raise error or FirstProcessFailed("the first process has failed; see its error")

    def wait(self) -> None:
        """Until all processes are here."""
        self._fabric.barrier()


def under_torchrun() -> bool:
    """True if torchrun has started this process."""
    return torch.distributed.is_available() and torch.distributed.is_torchelastic_launched()


def _layout(processes: int | None) -> tuple[int, int]:
    """The number of processes on this node, and of nodes."""
    if not under_torchrun():
        return processes or 1, 1
    total, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if processes not in (None, total):
        raise ValueError(
            f"{processes} processes are asked for, but torchrun has started {total}; leave out "
            "--processes"
        )
    return here, total // here
