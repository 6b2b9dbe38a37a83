"""Tables as data: scores with the published ones beside them, and real graphs side by side."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from treefold.lab.report.names import NAMES, STYLES, title_of
from treefold.lab.report.runs import Group, Stat


class Cell(NamedTuple):
    """Words, smaller words, a mark (best, second), a colour, a link, a picture."""

    text: str = ""
    small: str = ""
    mark: str = ""
    colour: str = ""
    link: str = ""
    svg: str = ""


class Column(NamedTuple):
    """A column: its head, its cells, and what its head shares with its neighbours'."""

    head: str
    cells: Sequence[Cell]
    over: str = ""
    number: bool = True


class Table(NamedTuple):
    """A table; a terminal shows its first `short` columns, or all."""

    title: str
    columns: Sequence[Column]
    note: str = ""
    short: int | None = None

    def spans(self) -> list[tuple[str, int]]:
        """The upper row of heads, each with how many columns it spans."""
        return [(over, len(list(each))) for over, each in groupby(self.columns, lambda c: c.over)]

    def rows(self) -> Iterable[tuple[Cell, ...]]:
        """The cells row by row."""
        return zip(*(column.cells for column in self.columns), strict=True)


class Measure(NamedTuple):
    """How a kind of score is written, and which is the better one."""

    title: str
    digits: int = 3
    highest: bool = True
    arrow: str = "↑"

    def key(self, found: Stat | None) -> float:
        """Higher for the better one, alike for what is written alike."""
        mean = found.mean if found else float("nan")
        return round(mean if self.highest else -mean, self.digits)


def measure_of(metric: str) -> Measure:
    """The measure of a score such as `accuracy@200`."""
    name = metric.partition("@")[0]
    return Measure(*NAMES["measures"].get(name, [name]))


def where(metric: str) -> str:
    """`sizes 1–16` for accuracy@1-16, `balanced, size 32` for accuracy@balanced-32."""
    name = metric.partition("@")[2]
    size, balanced = name.removeprefix("balanced-"), name.startswith("balanced-")
    if not size.replace("-", "").isdecimal():
        return str(NAMES["scores"].get(size, size.replace("-", " ")))
    words = f"sizes {size.replace('-', '–')}" if "-" in size else f"size {int(size):,}"
    return f"balanced, {words}" if balanced else words


def scores_of(groups: Iterable[Group]) -> list[str]:
    """The names of all scores, in the order of their table."""

    def place(metric: str) -> tuple[bool, int, int, str]:
        name, order = metric.partition("@")[2].removeprefix("balanced-"), [*NAMES["scores"]]
        number = name.partition("-")[0]
        first = order.index(name) if name in order else len(order)
        return "balanced" in metric, first, int(number) if number.isdecimal() else 0, name

    return sorted({name for group in groups for name in group.scores}, key=place)


def headline_score(groups: Iterable[Group]) -> str:
    """The score that an overview shows: the average, the test, or the largest sets."""
    names = scores_of(groups)
    uniform = [name for name in names if "balanced" not in name] or names
    first = [name for name in names if name.endswith(("@average", "@test"))]
    return (first or uniform or [""])[-1]


def number_cell(found: Stat | None, digits: int, mark: str = "") -> Cell:
    """A number over its deviation; empty where there is none."""
    number, _, deviation = found.text(digits).partition(" ± ") if found else ("", "", "")
    return Cell(number, f"± {deviation}" if deviation else "", mark)


def names(groups: Iterable[Group]) -> Column:
    """The aggregators by name and colour, each with its kind or what was changed in it."""
    cells = []
    for group in groups:
        changed = [f"{key.rpartition('.')[2]}={value}" for key, value in group.changes.items()]
        small, style = ", ".join(changed) or group.style.kind, group.style
        cells.append(Cell(style.label, small, "", style.colour, f"#{group.anchor}"))
    return Column("aggregator", cells, number=False)


def compared(rows: Sequence[Group | None], metric: str, title: str = "") -> list[Column]:
    """Our scores, the best of them and the second marked, and the published ones if there are."""
    measure, title = measure_of(metric), title or where(metric)
    ours = [group.metric(metric) if group else None for group in rows]
    rivals = {g: measure.key(s) for g, s in zip(rows, ours, strict=True) if g and s}
    keys = sorted({key for group, key in rivals.items() if group.style.kind != "exact"})[::-1]
    marks = dict(zip(keys, ("best", "second"), strict=False)) if len(rivals) > 1 else {}
    cells = [
        number_cell(s, measure.digits, marks.get(rivals[g], "") if g in rivals else "")
        for g, s in zip(rows, ours, strict=True)
    ]
    paper = [group.reported(metric) if group else None for group in rows]
    if not any(paper):
        over, balanced, size = title.rpartition("balanced, ")
        return [Column(size, cells, over + balanced.removesuffix(", "))]
    theirs = [number_cell(each, measure.digits) for each in paper]
    head = "paper" if all("the paper" in each.source for each in paper if each) else "published"
    return [Column("ours", cells, title), Column(head, theirs, title)]


def score_table(groups: Sequence[Group], title: str = "Scores") -> Table | None:
    """A row for each group with its scores, the published ones beside them, and the effort."""
    if not (metrics := scores_of(groups)):
        return None
    found = [column for metric in metrics for column in compared(groups, metric)]
    parameters = [group.metric("num_parameters") for group in groups]
    effort = {
        "epochs": [_range(run.record.epochs for run in group.finished) for group in groups],
        "steps": [_range(run.steps for run in group.finished) for group in groups],
        "seeds": [str(len(group.finished)) for group in groups],
        "parameters": [f"{each.mean:,.0f}" if each else "" for each in parameters],
    }
    more = [Column(head, list(map(Cell, cells))) for head, cells in effort.items() if any(cells)]
    measure = measure_of(metrics[0])
    note = f"{measure.title[0].upper()}{measure.title[1:]} {measure.arrow}"
    if "seconds" in metrics[0]:
        note += f", ours on {'; '.join(sorted({r.machine for g in groups for r in g.finished}))}"
    return Table(
        title, [names(groups), *found, *more], note + told(groups, metrics), 1 + len(found)
    )


def _range(counts: Iterable[int]) -> str:
    ends = sorted({*counts} - {0})
    return "–".join(f"{count:,}" for count in dict.fromkeys(ends[:1] + ends[-1:]))


def told(groups: Sequence[Group], metrics: Iterable[str]) -> str:
    """What marks mean, and where published numbers are from."""
    reported = (group.reported(metric) for group in groups for metric in metrics)
    found = "; ".join(sorted({each.source for each in reported if each}))
    marks = "; bold is best, underlined second." if len(groups) > 1 else "."
    return marks + (f" Published: {found}." if found else "")


def real_table(by_experiment: dict[str, list[Group]]) -> Table:
    """Real graphs as the paper draws them: an aggregator a row, a data set a column."""
    every = [group for groups in by_experiment.values() for group in groups]
    rows = {group.row: group for group in every}
    order = sorted(rows, key=[*STYLES, *rows].index, reverse=True)
    columns, metrics = [names(rows[row] for row in order)], []
    for name, groups in by_experiment.items():
        metrics.append(headline_score(groups))
        measure, here = measure_of(metrics[-1]), {group.row: group for group in groups}
        title = f"{title_of(name)}, {measure.title} {measure.arrow}"
        columns += compared([here.get(row) for row in order], metrics[-1], title)
    note = "Test scores of the epoch that is best on validation"
    return Table("Real graphs side by side", columns, note + told(every, metrics))
