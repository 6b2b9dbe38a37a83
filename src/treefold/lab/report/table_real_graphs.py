"""All benchmarks of real graphs side by side, as in the paper's figure: a row an aggregator."""

from collections import defaultdict
from collections.abc import Sequence

from treefold.lab.report.groups import Group
from treefold.lab.report.order import PRESETS
from treefold.lab.report.styles import Style
from treefold.lab.report.table import Column, Table
from treefold.lab.report.table_accuracy import ABSOLUTE, ACCURACY, AREA, Measure, score_cells
from treefold.lab.report.text import Small, Text, listed

COLUMNS: dict[str, Measure] = {
    "zinc": ABSOLUTE,
    "zinc-edges": ABSOLUTE,
    "molhiv": AREA,
    "cifar10": ACCURACY,
    "cifar10-edges": ACCURACY,
    "mnist": ACCURACY,
    "mnist-edges": ACCURACY,
}
"""The columns of the figure, in its order."""


def real_graphs_table(groups: Sequence[Group], styles: dict[str, Style]) -> Table | None:
    """Scores of the best epoch on validation; None unless there are several benchmarks."""
    by_row: dict[tuple[str, str], dict[str, Group]] = defaultdict(dict)
    for group in groups:
        if group.experiment in COLUMNS and group.metric(_score(group.experiment)):
            by_row[group.runs[0].record.preset, group.row].setdefault(group.experiment, group)
    shown = [name for name in COLUMNS if any(name in found for found in by_row.values())]
    if len(shown) < 2:
        return None
    best = {(p, name): _best(by_row, p, name) for p, _ in by_row for name in shown}
    rows = [
        _row(found, styles[row], preset, shown, best)
        for (preset, row), found in sorted(by_row.items(), key=lambda item: _place(item[0][0]))
    ]
    columns = [Column(head, _head(name), number=True) for name in shown for head in _HEADS]
    return Table(
        "Real graphs side by side",
        f"Test scores of the best epoch on validation, for {listed(shown)}; each of them has a "
        "table of its own with notes. Bold: the best mean of its preset. The paper's values are "
        "those it compares with; its own stand in a figure without numbers.",
        (Column("aggregator"), Column("preset"), *columns),
        tuple(rows),
    )


_HEADS = ("ours", "paper", "Δ")


def _score(experiment: str) -> str:
    return f"{COLUMNS[experiment].prefix}test"


def _head(experiment: str) -> str:
    return f"{experiment}, {COLUMNS[experiment].title.lower()}"


def _place(preset: str) -> int:
    return PRESETS.index(preset) if preset in PRESETS else len(PRESETS)


def _best(
    by_row: dict[tuple[str, str], dict[str, Group]], preset: str, experiment: str
) -> float | None:
    found = [of[experiment] for (p, _), of in by_row.items() if p == preset and experiment in of]
    means = [s.mean for group in found if (s := group.metric(_score(experiment)))]
    choose = max if COLUMNS[experiment].highest else min
    return choose(means) if len(means) > 1 else None


def _row(
    found: dict[str, Group],
    style: Style,
    preset: str,
    shown: Sequence[str],
    best: dict[tuple[str, str], float | None],
) -> tuple[Text, ...]:
    cells: list[Text] = [(style.label, Small(style.kind)), (preset,)]
    for name in shown:
        if name in found:
            measure, score = COLUMNS[name], _score(name)
            cells += score_cells(found[name], score, best[preset, name], True, measure.digits)
        else:
            cells += [()] * len(_HEADS)
    return tuple(cells)
