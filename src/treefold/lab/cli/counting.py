"""Progress of something that can be counted: a bar on a terminal, a few lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def bar_or_lines(
    what: str,
    columns: tuple[ProgressColumn, ...],
    line: Callable[[int, int | None], str],
    *,
    first: int = 0,
    step: int = 1,
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of what is done and the total, if that is known.

    The bar shows `columns`. Off a terminal `line` makes a line of the two, from `first` on, for
    every tenth of the total, or every `step` if that is not known.
    """
    if not sys.stderr.isatty():
        yield _Lines(line, first, step)
        return
    shown = (TextColumn("{task.description}"), BarColumn(bar_width=24), *columns)
    time_left = TimeRemainingColumn(compact=True)
    with Progress(*shown, time_left, console=Console(stderr=True)) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


class _Lines:
    def __init__(self, line: Callable[[int, int | None], str], first: int, step: int) -> None:
        self._line, self._next, self._step = line, first, step

    def __call__(self, done: int, total: int | None) -> None:
        if done < self._next and done != total:
            return
        self._next = done + (max(1, total // 10) if total else self._step)
        print(self._line(done, total), file=sys.stderr, flush=True)
