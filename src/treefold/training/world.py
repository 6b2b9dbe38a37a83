"""The world a run lives in: devices, precision and processes, all through Lightning Fabric.

One process is a world of size one, so that nothing else asks how many there are.
"""

import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class World:
    """Where a model is trained: `device`, how many processes, and what passes between them."""

    def __init__(self, device: str = "cpu", precision: str = "32-true", processes: int = 1) -> None:
        for name in ("lightning.fabric", "lightning_fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from lightning_fabric import Fabric  # noqa: PLC0415  (it takes a second to import)

            strategy = "ddp" if processes > 1 else "auto"
            self._fabric = Fabric(
                accelerator=device,
                devices=processes,
                precision=precision,  # type: ignore[arg-type]
                strategy=strategy,
            )
            self._fabric.launch()

    @property
    def rank(self) -> int:
        """Which process this is."""
        return int(self._fabric.global_rank)

    @property
    def size(self) -> int:
        """How many processes there are."""
        return int(self._fabric.world_size)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self._fabric.device

    def wrap(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The model and the optimiser, on the device and joined to those of other processes."""
        wrapped: tuple[nn.Module, Optimizer] = self._fabric.setup(model, optimizer)
        return wrapped

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
        """Clip the gradient's norm, and say what it was."""
        norm = self._fabric.clip_gradients(
            model, optimizer, max_norm=max_norm, error_if_nonfinite=False
        )
        assert norm is not None
        return norm

    def sum(self, numbers: Tensor) -> Tensor:
        """The sum over processes."""
        total: Any = self._fabric.all_reduce(numbers, reduce_op="sum")
        return total if isinstance(total, Tensor) else torch.as_tensor(total)

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return flag if self.size == 1 else bool(self.sum(torch.tensor(float(flag))) > 0)

    def wait(self) -> None:
        """Until all processes are here."""
        self._fabric.barrier()
