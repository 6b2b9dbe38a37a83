"""What happened during training: accuracy, loss, and how far the laws were from holding."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from treefold.lab.report.figure import Axis, Figure, Line, curve, log_axis, slug_of
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import Group
from treefold.lab.report.runs import Run
from treefold.lab.report.seed_stats import Spread, fold
from treefold.lab.report.styles import Style

MAX_POINTS = 250
LAW = "law:"
ROUNDING = 1e-6

Words: TypeAlias = tuple[str, str, tuple[float, float] | None]
_COLUMNS: dict[str, Words] = {
    "validation_accuracy": ("Validation accuracy", "accuracy", (-0.02, 1.03)),
    "validation_mae": ("Validation error", "mean absolute error", None),
    "validation_roc-auc": ("Validation area", "area under the ROC curve", (-0.02, 1.03)),
    "train_loss": ("Training loss", "loss", None),
}
"""What to draw: the title, the axis, and its limits; logarithmic without limits."""


def curve_figures(groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    """Validation scores and training loss; not for a sweep, whose curves hardly differ."""
    if any(group.is_sweep for group in groups):
        return []
    figures = [_figure(groups, styles, *column) for column in _COLUMNS.items()]
    return [figure for figure in figures if figure]


def law_figures(groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    """Each law that was logged, unless it holds by construction."""
    runs = [run for group in groups for run in group.runs]
    figures = [
        _figure(groups, styles, column, (_law_title(column), "mean relative violation", None))
        for column in law_columns(groups)
        if not is_rounding(runs, column)
    ]
    return [figure for figure in figures if figure]


def law_columns(groups: Sequence[Group]) -> list[str]:
    """The laws that any of the logs holds."""
    rows = (row for group in groups for run in group.runs for row in run.log)
    return sorted({column for row in rows for column in row if column.startswith(LAW)})


def over_epochs(runs: Iterable[Run], column: str) -> dict[int, Spread]:
    """A column of the logs, folded over the runs at each epoch."""
    values: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        for row in run.log:
            if column in row:
                values[int(row["epoch"])].append(row[column])
    folded = {epoch: fold(values[epoch]) for epoch in sorted(values)}
    return {epoch: spread for epoch, spread in folded.items() if spread}


def is_rounding(runs: Iterable[Run], column: str) -> bool:
    """Whether a law holds as well as floating point can tell, as one that is built in does."""
    return all(row.get(column, 0.0) < ROUNDING for run in runs for row in run.log)


def planned_epochs(run: Run) -> str:
    """What the recipe asked for, or a question mark."""
    epochs = run.option("training", "epochs")
    return str(epochs) if isinstance(epochs, int) else "?"


def _law_title(column: str) -> str:
    return f"Violation of the {column.removeprefix(LAW)} law"


def _figure(
    groups: Sequence[Group],
    styles: dict[str, Style],
    column: str,
    words: Words,
) -> Figure | None:
    title, axis, limits = words
    by_group = [(group, _lines(group, column, styles[group.row], not limits)) for group in groups]
    drawn = [group for group, lines in by_group if lines]
    if not drawn:
        return None
    first = drawn[0]
    shown = tuple(line for _, lines in by_group for line in lines)
    return Figure(
        slug_of(title, first.experiment, first.variant),
        f"{title} over training: {first.experiment}",
        note_of(drawn, styles),
        _caption(drawn, column),
        Axis("epoch"),
        Axis(axis, limits=limits) if limits else log_axis(axis, shown),
        shown,
        sources=sources_of(drawn, styles),
    )


def _lines(group: Group, column: str, style: Style, positive: bool) -> list[Line]:
    finished = _thin(over_epochs(group.finished, column))
    lines = [curve(style.label, finished, style.colour, style.dash, positive=positive)]
    for run in group.unfinished:
        label = f"{style.label}, seed {run.record.seed}: {run.record.status} at {run.record.epochs}"
        label += f" of {planned_epochs(run)} epochs"
        points = _thin(over_epochs([run], column))
        lines.append(curve(label, points, style.colour, "dot", positive=positive))
    return [line for line in lines if line]


def _thin(points: dict[int, Spread]) -> dict[int, Spread]:
    """At most so many points, the first and the last among them."""
    if len(points) <= MAX_POINTS:
        return points
    epochs = list(points)
    step = (len(epochs) - 1) / (MAX_POINTS - 1)
    return {epochs[round(k * step)]: points[epochs[round(k * step)]] for k in range(MAX_POINTS)}


def _caption(groups: Sequence[Group], column: str) -> str:
    sentences = []
    if any(len(group.finished) > 1 for group in groups):
        sentences.append("The band is the range over seeds.")
    if any(group.unfinished for group in groups):
        sentences.append("Dotted: runs that are not finished, each on its own.")
    if any(len(run.log) > MAX_POINTS for group in groups for run in group.runs):
        sentences.append(f"Longer trainings show {MAX_POINTS} of their epochs.")
    zero = [s.low <= 0 for g in groups for s in over_epochs(g.runs, column).values()]
    if column.startswith(LAW) and any(zero):
        sentences.append("Epochs without any violation do not appear on the logarithmic axis.")
    return " ".join(sentences)
