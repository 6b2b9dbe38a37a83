"""The page of a report, in the order it says things: an overview, then experiment by experiment."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from treefold.lab.experiments import TITLES
from treefold.lab.report import figures
from treefold.lab.report.draw import Figure
from treefold.lab.report.names import (
    LEARNED,
    PRESETS,
    REAL,
    in_order,
    slug_of,
    style_of,
    title_of,
)
from treefold.lab.report.tables import (
    Cell,
    Column,
    Table,
    headline_score,
    measure_of,
    real_table,
    score_table,
    where,
)
from treefold.lab.runs import Group, Stat


class Section(NamedTuple):
    """An experiment: the sentence a person would say first, its headline, then all the rest.

    `parts` are folded away until a reader asks for them; those of a page are its sections.
    `records` are the groups whose records are listed.
    """

    title: str
    about: str = ""
    sentence: str = ""
    notes: Sequence[str] = ()
    headline: Figure | None = None
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    items: Sequence[str] = ()
    records: Sequence[Group] = ()
    parts: Sequence["Section"] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return slug_of(self.title)

    @property
    def shown(self) -> list["Section"]:
        """The parts that have something to show."""
        return [part for part in self.parts if any(part[5:-1]) or part.shown]


def report_page(groups: Sequence[Group], damaged: Sequence[str] = ()) -> Section:
    """All of a folder of runs; smoke and unfinished runs come last."""
    finished = [group for group in in_order(groups) if group.finished]
    smoke = [group for group in finished if group.preset == "smoke"]
    found = by_experiment([group for group in finished if group not in smoke])
    real = {name: found[name] for name in found if name in REAL}
    last = [
        Section("Smoke runs", tables=_score_tables(by_experiment(smoke)), records=smoke),
        unfinished(in_order(groups)),
        Section("Files that could not be read", items=damaged),
    ]
    parts = [_section(rows) for name, rows in found.items() if name not in real]
    parts += [_real_section(real)] if real else []
    about = "Runs that only show that everything works, and runs without results."
    page = Section(
        "treefold results",
        f"{sum(len(group.finished) for group in groups)} finished runs. Numbers are means over "
        "seeds, with their standard deviation; a published number is blank where none is known.",
        tables=[_overview(found)] if len(found) > 1 else [],
        parts=[*parts, Section("Smoke and unfinished runs", about, parts=last)],
    )
    return page._replace(parts=page.shown)


def by_experiment(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups in reading order by their experiments."""
    return {name: [*rows] for name, rows in groupby(groups, lambda group: group.experiment)}


def arranged(groups: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    """The groups that may be compared, with what they share; those of most rows come first.

    Overrides differ in what they change, and times in the machine.
    """
    found = defaultdict(list)
    for group in groups:
        machine = f", on {group.timed_on}" * bool(group.timed_on)
        found[f"Preset {group.preset}{', changed' * bool(group.changes)}{machine}"].append(group)
    strength = [*PRESETS, *sorted(group.preset for group in groups)]

    def rank(rows: list[Group]) -> tuple[bool, int, int]:
        return bool(rows[0].changes), -len(rows), strength.index(rows[0].preset)

    return sorted(found.items(), key=lambda item: rank(item[1]))


def _section(groups: list[Group]) -> Section:
    (shared, chosen), *others = arranged(groups)
    drawn = _figures(chosen)
    title, about = TITLES.get(chosen[0].experiment, (chosen[0].experiment, ""))
    folds = [
        Section(name, tables=_score_tables({"Scores": rows}), figures=_figures(rows)[:1])
        for name, rows in others
    ]
    return Section(
        title,
        f"{about} {shared}.",
        _sentence(chosen),
        headline=drawn[0] if drawn else None,
        tables=_score_tables({"Scores": chosen}),
        figures=drawn[1:],
        parts=[*folds, *folded(chosen, groups)],
    )


def _score_tables(groups: Mapping[str, Sequence[Group]]) -> list[Table]:
    found = (score_table(rows, title_of(name)) for name, rows in groups.items())
    return [table for table in found if table]


def _figures(groups: Sequence[Group]) -> list[Figure]:
    """The figures of groups that may be compared; those with changes differ in what was changed."""
    if any(group.variant != groups[0].variant for group in groups):
        return []
    swept = any(group.weight is not None for group in groups)
    found = [make(groups) for make in (figures.accuracy, figures.ratio, figures.speed)]
    found += [figures.accuracy(groups, "balanced_accuracy")]
    found += [] if swept else [figures.training(groups)]
    return [figure for figure in found if figure]


def folded(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Section]:
    """What only some readers ask for: laws, departures, records."""
    departures: dict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        for words in (str(d) for run in group.finished for d in run.record.departures):
            departures[words][style_of(group).label] = None
    everyone = len({style_of(group).label for group in groups})
    items = [
        words if len(whose) == everyone else f"{words} ({', '.join(whose)})"
        for words, whose in departures.items()
    ]
    return [
        Section("Laws", figures=figures.laws(chosen)),
        Section("Departures from the published recipe", items=items),
        Section("Records", records=groups),
    ]


def _real_section(real: Mapping[str, list[Group]]) -> Section:
    chosen = {name: arranged(groups)[0][1] for name, groups in real.items()}
    both = [ends for groups in chosen.values() if all((ends := best_of(groups))[:2])]
    ahead = sum(first is learned for learned, _, first in both)
    words = f"A learned aggregator is ahead on {ahead} of {len(both)} data sets where both ran."
    return Section(
        "Real graphs",
        "Molecules and superpixels of images, each with its own measure.",
        words if both else "",
        tables=[real_table(chosen)],
        parts=[_section(groups) for groups in real.values()],
    )


def unfinished(groups: Sequence[Group]) -> Section:
    """The runs without results, how far they came, and why they ended."""
    items = [
        f"{title_of(group.experiment)}, {style_of(group).label}, {group.variant}, seed "
        f"{run.record.seed}: {run.record.status} after {run.record.epochs} of "
        f"{run.option('training', 'epochs')} epochs. {run.record.error or ''}"
        for group in groups
        for run in group.runs
        if run not in group.finished
    ]
    bare = [group for group in groups if not group.finished]
    return Section("Unfinished runs", items=items, records=bare)


def best_of(groups: Sequence[Group]) -> list[Group | None]:
    """The best learned, the best fixed, and the better one of them."""
    metric = headline_score(groups)
    measure, ends = measure_of(metric), list[Group | None]()
    for kinds in (LEARNED, ("fixed",), (*LEARNED, "fixed")):
        found = [g for g in groups if style_of(g).kind in kinds and g.metric(metric)]
        ends.append(max(found, key=lambda g: measure.key(g.metric(metric)), default=None))
    return ends


def _overview(found: Mapping[str, Sequence[Group]]) -> Table:
    """An experiment a row: its best learned, best fixed and best published number, and a spark."""
    rows = [_overview_row(name, arranged(groups)[0][1]) for name, groups in found.items()]
    heads = ("experiment", "best learned", "best fixed", "best published", "")
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return Table("Overview", [Column(h, c, number="best" in h) for h, c in columns], short=4)


def _overview_row(name: str, groups: Sequence[Group]) -> list[Cell]:
    metric, (learned, fixed, first) = headline_score(groups), best_of(groups)
    measure = measure_of(metric)
    # The times of somebody else's machine are no rivals of ours.
    known = [g for g in groups if g.reported(metric) and not g.timed_on]
    theirs = max(known, key=lambda g: measure.key(g.reported(metric)), default=None)
    score = f"{measure.title}, {where(metric)}\u00a0{measure.arrow}" if metric else "no scores"
    row = [Cell(title_of(name), score, link=f"#{slug_of(title_of(name))}")]
    for group in (learned, fixed):
        ours = group.metric(metric) if group else None
        mark = "best" if learned and fixed and group is first else ""
        row.append(_named(group, ours, measure.digits, mark))
    row.append(_named(theirs, theirs.reported(metric) if theirs else None, measure.digits))
    wanted = [style_of(group).label for group in (learned, fixed) if group]
    drawn = [figures.spark(figure, wanted) for figure in _figures(groups)[:1]]
    return [*row, Cell(svg="".join(drawn))]


def _named(group: Group | None, found: Stat | None, digits: int, mark: str = "") -> Cell:
    """A number over the name of whose it is."""
    if group is None or found is None:
        return Cell()
    number, style = found.text(digits).partition(" ")[0], style_of(group)
    return Cell(number, style.label, mark, style.colour)


def _sentence(groups: Sequence[Group]) -> str:
    """The sentence that a person would say first."""
    metric, (learned, fixed, best) = headline_score(groups), best_of(groups)
    if best is None:
        return ""
    found = {group: each for group in groups if (each := group.metric(metric))}
    means = [each.mean for each in found.values()]
    if best.weight is not None and sum(s.high >= max(means) for s in found.values()) > 2:
        ends = f"{min(means):.2f} and {max(means):.2f} ({where(metric)})"
        return f"No weight stands out: accuracy lies between {ends}."
    measure, other = measure_of(metric), fixed if best is learned else learned
    largest = groups[0].runs[0].option("task", "max_train_size")
    if metric.startswith("accuracy@") and largest:
        told = {group: f"{100 * each.mean:.0f} %" for group, each in found.items()}
        sets = where(metric).replace("size", "sets of")
        more = f"of the time on {sets}, after training on sets of at most {largest}"
        opening = f"{style_of(best).label} is right {told[best]} {more}"
    else:
        told = {group: each.text(measure.digits) for group, each in found.items()}
        verb = "is fastest with" if best.timed_on else "is best with" if other else "has"
        more = f"{told[best]} ({measure.title}, {where(metric)})"
        opening = f"{style_of(best).label} {verb} {more}"
    if other is None:
        return f"{opening}."
    kind = "learned" if other is learned else "fixed"
    return f"{opening}; {style_of(other).label}, the best {kind} one, {told[other]}."
