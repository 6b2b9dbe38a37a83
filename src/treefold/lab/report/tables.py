"""Tables as data: scores with the published ones next to them, and real graphs side by side."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from treefold.lab.experiments import headline_score, measure_of, scores_of, where
from treefold.lab.report import names
from treefold.lab.report.names import source_in_words, style_of
from treefold.lab.runs import Group, Stat


class Cell(NamedTuple):
    """Words, smaller words, a mark (best, second), a colour, a link, a picture."""

    text: str = ""
    small: str = ""
    mark: str = ""
    colour: str = ""
    link: str = ""
    svg: str = ""


Columns = dict[str, list[Cell]]
"""Cells by the heads of columns; neighbours share what is before the last comma of theirs."""


class Table(NamedTuple):
    """A table whose first column names its rows; a terminal shows its first `short` columns."""

    title: str
    columns: Columns
    note: str = ""
    short: int | None = None

    def spans(self) -> list[tuple[str, int]]:
        """The upper row of heads, each with how many columns it spans."""
        over = groupby(self.columns, lambda head: head.rpartition(", ")[0])
        return [(shared, len(list(each))) for shared, each in over]

    def rows(self) -> list[tuple[Cell, ...]]:
        """The cells row by row."""
        return list(zip(*self.columns.values(), strict=True))


def aggregators(groups: Iterable[Group]) -> Columns:
    """The aggregators by name and colour, each with its kind or what was changed in it."""
    cells = []
    for group in groups:
        changed = [f"{key.rpartition('.')[2]}={value}" for key, value in group.changes.items()]
        (label, kind, colour, _), link = style_of(group), f"#{names.anchor_of(group)}"
        cells.append(Cell(label, ", ".join(changed) or kind, "", colour, link))
    return {"aggregator": cells}


def compared(rows: Sequence[Group | None], metric: str, title: str = "") -> Columns:
    """Our scores, the best of them and the second marked, and the published ones if there are."""
    digits, title = measure_of(metric).digits, title or where(metric)
    scores = [group.metric(metric) if group else None for group in rows]
    keys = [measure_of(metric).key(score) for score in scores]
    rivals = {  # an exact monoid is none
        key
        for group, key in zip(rows, keys, strict=True)
        if group and key == key and style_of(group).kind != "exact"
    }
    order = zip(sorted(rivals)[::-1], ("best", "second"), strict=False)
    marks = dict(order) if sum(score is not None for score in scores) > 1 else {}
    pairs = zip(scores, keys, strict=True)
    ours = [_number(score, digits, marks.get(key, "")) for score, key in pairs]
    paper = [group.reported(metric) if group else None for group in rows]
    if not any(paper):
        return {title: ours}
    sources = {source_in_words(each.source) for each in paper if each}
    head = "paper" if all("the paper" in source for source in sources) else "published"
    theirs = [_number(each, digits) for each in paper]
    return {f"{title}, ours": ours, f"{title}, {head}": theirs}


def _number(found: Stat | None, digits: int, mark: str = "") -> Cell:
    """A number over its deviation; empty where there is none."""
    number, _, deviation = found.text(digits).partition(" ± ") if found else ("", "", "")
    return Cell(number, f"±\u00a0{deviation}" if deviation else "", mark)


def score_table(groups: Sequence[Group]) -> list[Table]:
    """A row for each group with its scores, the published ones next to them, and the effort."""
    columns, metrics = aggregators(groups), scores_of(groups)
    for metric in metrics:
        columns |= compared(groups, metric)
    short, machines = len(columns), "; ".join(sorted({g.timed_on for g in groups} - {""}))
    epochs = [sorted({f"{run.record.epochs:,}" for run in g.finished} - {"0"}) for g in groups]
    columns["epochs"] = [Cell(", ".join(each)) for each in epochs]
    columns["seeds"] = [Cell("" if g.timed_on else str(len(g.finished))) for g in groups]
    for name in ("num_parameters", "finite_states", "smallest_quotient"):
        ends = [(e.low, e.high) if (e := group.metric(name)) else () for group in groups]
        words = ["–".join(dict.fromkeys(f"{end:,.0f}" for end in each)) for each in ends]
        columns[name.removeprefix("num_").replace("_", " ")] = [Cell(each) for each in words]
    laws = [[r.record.metrics.get("commutative_monoid") for r in g.finished] for g in groups]
    held = [[each for each in one if each is not None] for one in laws]
    columns["exact monoid"] = [Cell(f"{sum(e)} of {len(e)}" if e else "") for e in held]
    columns = {head: cells for head, cells in columns.items() if any(c.text for c in cells)}
    measure = measure_of("".join(metrics[:1]))
    note = f"{measure.title} {measure.arrow}{', ours on ' * bool(machines)}{machines}"
    return [Table("Scores", columns, legend(note, groups, metrics), short)] if metrics else []


def legend(note: str, groups: Sequence[Group], metrics: Iterable[str]) -> str:
    """A note, the meaning of marks, and the sources of published numbers."""
    reported = (group.reported(metric) for group in groups for metric in metrics)
    found = "; ".join(sorted({source_in_words(each.source) for each in reported if each}))
    marks = "; bold is best, underlined second" if len(groups) > 1 else ""
    return f"{note[0].upper()}{note[1:]}{marks}." + (f" Published: {found}." if found else "")


def real_table(by_experiment: Mapping[str, Sequence[Group]]) -> Table:
    """Real graphs as the paper draws them: an aggregator a row, a data set a column."""
    every = [group for groups in by_experiment.values() for group in groups]
    rows = {group.row: group for group in every}
    order = sorted(rows, key=[*names.STYLES, *rows].index, reverse=True)
    columns, metrics = aggregators(rows[row] for row in order), []
    for name, groups in by_experiment.items():
        metrics.append(headline_score(groups))
        measure, here = measure_of(metrics[-1]), {group.row: group for group in groups}
        title = f"{names.title_of(name)}, {measure.title} {measure.arrow}"
        columns |= compared([here.get(row) for row in order], metrics[-1], title)
    note = legend("Test scores of the epoch that is best on validation", every, metrics)
    return Table("Real graphs side by side", columns, note)
