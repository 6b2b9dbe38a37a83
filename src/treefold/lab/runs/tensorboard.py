"""Curves for TensorBoard, where it is installed."""

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from treefold.atomic import storage_errors


class TensorBoardLog:
    """Writes a run's metrics as TensorBoard events; does nothing if tensorboard is missing."""

    def __init__(self, folder: Path, epochs_done: int = 0) -> None:
        self._writer, self._folder = None, folder / "tensorboard"
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (optional)

            # Events of epochs that will be run again are hidden.
            self._writer = SummaryWriter(self._folder, purge_step=epochs_done + 1)

    def append(self, row: Mapping[str, float | int]) -> None:
        """One epoch's numbers."""
        if self._writer is None:
            return
        with storage_errors(self._folder):
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name.replace(":", "/"), value, row["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Finish the events file; what ended the run is told, not that this fails too."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
