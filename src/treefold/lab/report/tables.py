"""Tables as data: scores with the published ones beside them, and real graphs side by side."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from treefold.lab.report.names import (
    NAMES,
    STYLES,
    anchor_of,
    source_in_words,
    style_of,
    title_of,
)
from treefold.lab.runs import Group, Stat


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
    """A kind of score: its words and digits, and which one is better."""

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
    balanced, size = "balanced, " * name.startswith("balanced-"), name.removeprefix("balanced-")
    if size.isdecimal():
        return f"{balanced}size {int(size):,}"
    if size.replace("-", "").isdecimal():
        return f"{balanced}sizes {size.replace('-', '–')}"
    return str(NAMES["scores"].get(name, name.replace("-", " ")))


def scores_of(groups: Iterable[Group]) -> list[str]:
    """The names of all scores, in the order of their records."""
    return list(dict.fromkeys(name for group in groups for name in group.scores))


def headline_score(groups: Iterable[Group]) -> str:
    """The score that an overview shows: the average, the test, or the largest sets."""
    names = scores_of(groups)
    uniform = [name for name in names if "balanced" not in name] or names
    first = [name for name in names if name.endswith(("@average", "@test"))]
    return (first or uniform or [""])[-1]


def number_cell(found: Stat | None, digits: int, mark: str = "") -> Cell:
    """A number over its deviation; empty where there is none."""
    number, _, deviation = found.text(digits).partition(" ± ") if found else ("", "", "")
    return Cell(number, f"±\u00a0{deviation}" if deviation else "", mark)


def names(groups: Iterable[Group]) -> Column:
    """The aggregators by name and colour, each with its kind or what was changed in it."""
    cells = []
    for group in groups:
        changed = [f"{key.rpartition('.')[2]}={value}" for key, value in group.changes.items()]
        style = style_of(group)
        small = ", ".join(changed) or style.kind
        cells.append(Cell(style.label, small, "", style.colour, f"#{anchor_of(group)}"))
    return Column("aggregator", cells, number=False)


def compared(rows: Sequence[Group | None], metric: str, title: str = "") -> list[Column]:
    """Our scores, the best of them and the second marked, and the published ones if there are."""
    measure, title = measure_of(metric), title or where(metric)
    ours: dict[Group | None, Stat]
    ours = {g: score for g in rows if g and (score := g.metric(metric))}
    marks = _marks(ours, measure)
    cells = [number_cell(ours.get(g), measure.digits, marks.get(g, "")) for g in rows]
    paper = [group.reported(metric) if group else None for group in rows]
    if not any(paper):
        return [Column(title, cells)]
    theirs = [number_cell(each, measure.digits) for each in paper]
    sources = {source_in_words(each.source) for each in paper if each}
    head = "paper" if all("the paper" in source for source in sources) else "published"
    return [Column("ours", cells, title), Column(head, theirs, title)]


def _marks(scores: Mapping[Any, Stat], measure: Measure) -> dict[Group | None, str]:
    """The best and the second of several; an exact monoid is no rival."""
    keys = {group: measure.key(score) for group, score in scores.items()}
    order = sorted({key for group, key in keys.items() if style_of(group).kind != "exact"})[::-1]
    words = dict(zip(order, ("best", "second"), strict=False)) if len(keys) > 1 else {}
    return {group: words.get(key, "") for group, key in keys.items()}


def score_table(groups: Sequence[Group], title: str = "Scores") -> Table | None:
    """A row for each group with its scores, the published ones beside them, and the effort."""
    if not (metrics := scores_of(groups)):
        return None
    found = [column for metric in metrics for column in compared(groups, metric)]
    effort = {"epochs": [_range(run.record.epochs for run in g.finished) for g in groups]}
    if not groups[0].timed_on:
        effort["seeds"] = [str(len(group.finished)) for group in groups]
    for head, name in {"states": "finite_states", "smallest quotient": "smallest_quotient"}.items():
        counts = [[run.record.metrics.get(name) or 0 for run in g.finished] for g in groups]
        effort[head] = [_range(each) for each in counts]
    effort["exact commutative monoid"] = [_laws_held(group) for group in groups]
    known = [group.metric("num_parameters") for group in groups]
    effort["parameters"] = [f"{each.mean:,.0f}" if each else "" for each in known]
    more = [Column(head, list(map(Cell, cells))) for head, cells in effort.items() if any(cells)]
    machines = "; ".join(sorted({group.timed_on for group in groups} - {""}))
    measure = measure_of(metrics[0])
    note = f"{measure.title} {measure.arrow}{', ours on ' * bool(machines)}{machines}"
    columns = [names(groups), *found, *more]
    return Table(title, columns, legend(note, groups, metrics), 1 + len(found))


def _laws_held(group: Group) -> str:
    """The number of runs whose finite states are a commutative monoid, of those that were asked."""
    asked = [run.record.metrics.get("commutative_monoid") for run in group.finished]
    held = [each for each in asked if each is not None]
    return f"{sum(held)} of {len(held)}" if held else ""


def _range(counts: Iterable[int]) -> str:
    ends = sorted({*counts} - {0})
    return "–".join(f"{count:,}" for count in dict.fromkeys(ends[:1] + ends[-1:]))


def legend(note: str, groups: Sequence[Group], metrics: Iterable[str]) -> str:
    """A note, the meaning of marks, and the sources of published numbers."""
    reported = (group.reported(metric) for group in groups for metric in metrics)
    found = "; ".join(sorted({source_in_words(each.source) for each in reported if each}))
    marks = "; bold is best, underlined second." if len(groups) > 1 else "."
    return f"{note[0].upper()}{note[1:]}{marks}" + (f" Published: {found}." if found else "")


def real_table(by_experiment: Mapping[str, Sequence[Group]]) -> Table:
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
    return Table("Real graphs side by side", columns, legend(note, every, metrics))
