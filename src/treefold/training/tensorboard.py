"""Curves for TensorBoard, where it is installed."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path


class TensorBoardLog:
    """Writes a run's metrics as TensorBoard events; does nothing if tensorboard is missing."""

    def __init__(self, folder: Path, epochs_done: int = 0) -> None:
        self._writer = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (optional)

            # Events of epochs that will be run again are hidden.
            self._writer = SummaryWriter(folder / "tensorboard", purge_step=epochs_done + 1)

    def append(self, row: Mapping[str, float | int]) -> None:
        """One epoch's numbers."""
        if self._writer is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name.replace(":", "/"), value, row["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Finish the events file."""
        if self._writer is not None:
            self._writer.close()
