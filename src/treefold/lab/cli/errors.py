"""Errors as one line and an exit code."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group

USAGE, FAILED, STORAGE, INTERRUPTED = 2, 3, 4, 130
EXTRAS = {
    "train": ("lightning_fabric", "filelock", "safetensors", "numpy", "torchmetrics"),
    "report": ("jinja2", "matplotlib"),
    "graphs": ("networkx",),
    "tables": ("pyarrow",),
    "ray": ("ray",),
}
"""The packages of each extra that a command cannot do without."""
FILES = {"DamagedCheckpoint", "UnreadableLog", "UnreadableRecord", "OSError"}
"""Errors about files, by name: their modules need torch, or time."""


@contextmanager
def as_one_line(debug: bool) -> Iterator[None]:
    """Turn what can go wrong into a line on standard error; with `debug`, leave the traceback.

    Exit codes: 2 for wrong names or values, 3 for a run that failed (numbers that are not finite,
    failed runs of a sweep), 4 for files that cannot be written or read, 130 for a run that was
    stopped and can be resumed.
    """
    try:
        yield
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except BrokenPipeError:
        raise  # for the entry point
    except Exception as error:
        if debug:
            raise
        if isinstance(error, ModuleNotFoundError) and (extra := _extra_of(error.name or "")):
            _leave(f"this needs {error.name}; pip install 'treefold[{extra}]'", USAGE)
        _leave(str(error) or type(error).__name__, _code(error))


def in_one_line(error: Exception) -> Group:
    """Print cyclopts' error about a command line; leaves it nothing to draw."""
    # Not through rich, which would wrap it or cut it off at the width of the screen.
    _say(str(error))
    return Group()


def _code(error: Exception) -> int:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "Stopped" in kinds:
        return INTERRUPTED
    if kinds & FILES:
        return STORAGE
    return USAGE if kinds & {"ValueError"} else FAILED


def _leave(message: str, code: int) -> None:
    _say(message)
    raise SystemExit(code)


def _extra_of(module: str) -> str | None:
    """The extra that brings a module that is missing, or None."""
    package = module.partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def stop_printing() -> None:
    """Discard standard output: its reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    print(f"treefold: {' '.join(message.split())}", file=sys.stderr)
