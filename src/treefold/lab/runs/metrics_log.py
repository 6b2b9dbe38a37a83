"""Logs of metrics: `metrics.csv`, one row per epoch, and curves for TensorBoard."""

import csv
import io
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from treefold.atomic import append_durably, storage_errors, write_atomically

LOG_FILE = "metrics.csv"

Value: TypeAlias = float | int | str


class UnreadableLog(ValueError):
    """A log is there, but it is not a table of text."""


class MetricsLog:
    """The `metrics.csv` of a run folder; a row is on the disk when `append` returns.

    The first row fixes the columns; one that a later row lacks stays empty there, and what it has
    besides is left out. A log that a kill left with half a line at its end is repaired when it is
    opened.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_FILE
        lines, torn = _lines(self.path)
        if torn:
            write_atomically(self.path, _text(lines))
        self.columns = _cells(lines[0]) if lines else []

    def append(self, row: Mapping[str, Value]) -> None:
        """Write one row, with an `epoch` and whatever was measured in it."""
        columns = self.columns or list(row)
        line = _line(row.get(column, "") for column in columns)
        if self.columns:
            append_durably(self.path, _text([line]))
        else:
            write_atomically(self.path, _text([_line(columns), line]))
            self.columns = columns

    def truncate_after(self, epoch: int) -> None:
        """Drop the rows of later epochs: a run resumed after `epoch` writes them again."""
        lines, _ = _lines(self.path)
        rows = zip(lines[1:], self.read(self.path.parent), strict=True)
        kept = [line for line, row in rows if float(row["epoch"]) <= epoch]
        if len(kept) == len(lines[1:]):
            return
        # Without rows the columns are free again.
        write_atomically(self.path, _text([lines[0], *kept] if kept else []))
        self.columns = self.columns if kept else []

    @staticmethod
    def read(folder: Path) -> list[dict[str, Value]]:
        """All whole rows, without their empty cells; text that looks like a number is a number."""
        path = folder / LOG_FILE
        lines, _ = _lines(path)
        table = [_cells(line) for line in lines]
        for number, cells in enumerate(table, start=1):
            if len(cells) != len(table[0]):
                raise UnreadableLog(
                    f"{path} has {len(cells)} cells in line {number}, expected {len(table[0])}; "
                    "correct that line"
                )
        return [
            {name: _value(cell) for name, cell in zip(table[0], cells, strict=True) if cell}
            for cells in table[1:]
        ]


class TensorBoardLog:
    """Writes a run's metrics as TensorBoard events; does nothing if tensorboard is missing."""

    def __init__(self, folder: Path, epochs_done: int = 0) -> None:
        self._folder, self._first_step = folder / "tensorboard", epochs_done + 1
        self._writer: Any = None  # made with the first numbers: it takes a second to import

    def append(self, row: Mapping[str, float | int]) -> None:
        """One epoch's numbers."""
        if find_spec("tensorboard") is None:
            return
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (optional)

        with storage_errors(self._folder):
            if self._writer is None:
                # Events of epochs that will be run again are hidden.
                self._writer = SummaryWriter(self._folder, purge_step=self._first_step)
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name.replace(":", "/"), value, row["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Finish the events file; an error here must not hide what ended the run."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()


def _lines(path: Path) -> tuple[list[str], bool]:
    """The whole lines of a log, and True if something torn follows them."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], False
    end = data.rfind(b"\n") + 1
    try:
        lines = data[:end].decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise UnreadableLog(f"{path} is not text ({error}); restore or remove it") from None
    return lines, end < len(data)


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _line(cells: Iterable[Value]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)  # floats by their repr: bit for bit
    return buffer.getvalue()


def _cells(line: str) -> list[str]:
    return next(csv.reader([line]))


def _value(cell: str) -> Value:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(cell)
    return cell
