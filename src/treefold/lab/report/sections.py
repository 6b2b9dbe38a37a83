"""What a report says, in the order it says it: an overview, then experiment by experiment."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from treefold.lab.report import figures, tables
from treefold.lab.report.draw import Figure
from treefold.lab.report.names import NAMES, PRESETS, TITLES, slug_of, title_of
from treefold.lab.report.runs import Group
from treefold.lab.report.tables import Cell, Column, Table, headline_score, measure_of, where

LEARNED = ("recurrent", "LCM")


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
    tables: Sequence[Table | None] = ()
    figures: Sequence[Figure | None] = ()
    items: Sequence[str] = ()
    records: Sequence[Group] = ()
    parts: Sequence["Section"] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return slug_of(self.title)

    @property
    def empty(self) -> bool:
        """True if there is nothing to show."""
        return not any((*self.tables, *self.figures, self.items, self.records, self.parts))


def report_page(groups: Sequence[Group], damaged: Sequence[str]) -> Section:
    """All of a folder of runs; smoke and unfinished runs come last."""
    told: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.finished:
            name = "Smoke runs" if group.preset == "smoke" else group.experiment
            told[name].append(group)
    smoke = told.pop("Smoke runs", [])
    real = {name: told[name] for name in told if name in NAMES["real"]}
    found = [_section(rows) for name, rows in told.items() if name not in real]
    bare = [group for group in groups if not group.finished]
    by_name = {
        group.experiment: [g for g in smoke if g.experiment == group.experiment] for group in smoke
    }
    tried = [tables.score_table(rows, title_of(name)) for name, rows in by_name.items()]
    last = [
        Section("Smoke runs", tables=tried, records=smoke),
        Section("Unfinished runs", items=unfinished(groups), records=bare),
        Section("Files that could not be read", items=damaged),
    ]
    about = "Runs that only show that everything works, and runs without results."
    rest = Section("Smoke and unfinished runs", about, parts=shown(last))
    chosen = {name: headline_groups(rows) for name, rows in told.items()}
    return Section(
        "treefold results",
        f"{sum(len(group.finished) for group in groups)} finished runs. Numbers are means over "
        "seeds, with their standard deviation; a published number is blank where none is known.",
        tables=[_overview(chosen) if len(chosen) > 1 else None],
        parts=shown([*found, *([_real_section(real)] if real else []), rest]),
    )


def shown(sections: Sequence[Section]) -> list[Section]:
    """The sections that have something to show."""
    return [section for section in sections if not section.empty]


def headline_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups to compare: of the preset with most rows, the strongest among equals.

    Scores may be compared wherever they were made, times only on one machine.
    """
    plain = [group for group in groups if not group.changes] or groups
    counts = Counter(_place(group) for group in plain)
    strong = [*PRESETS, *sorted(group.preset for group in plain)]
    best = max(counts, key=lambda place: (counts[place], -strong.index(place[0])))
    return [group for group in plain if _place(group) == best]


def _place(group: Group) -> tuple[str, str]:
    timed = group.by_key("seconds_per_epoch_by_size")
    return group.preset, f", on {group.finished[0].machine}" if timed else ""


def _section(groups: list[Group]) -> Section:
    chosen = headline_groups(groups)
    drawn = [*_figures(chosen), None]
    others: dict[str, list[Group]] = defaultdict(list)
    for group in (group for group in groups if group not in chosen):
        elsewhere = _place(group)[1] if _place(group)[1] != _place(chosen[0])[1] else ""
        others[f"Preset {group.preset}{', changed' * bool(group.changes)}{elsewhere}"].append(group)
    folds = [
        Section(words, tables=[tables.score_table(rows)], figures=_figures(rows)[:1])
        for words, rows in others.items()
    ]
    title, about = TITLES.get(chosen[0].experiment, (chosen[0].experiment, ""))
    return Section(
        title,
        f"{about} Preset {chosen[0].preset}.",
        _sentence(chosen),
        headline=drawn[0],
        tables=[tables.score_table(chosen)],
        figures=drawn[1:],
        parts=[*folds, *folded(chosen, groups)],
    )


def _figures(groups: Sequence[Group]) -> list[Figure]:
    """The figures of groups that may be compared; those with changes differ in what was changed."""
    if any(group.variant != groups[0].variant for group in groups):
        return []
    balanced = figures.accuracy(groups, "balanced_accuracy")
    swept = any(group.weight is not None for group in groups)
    found = [figures.accuracy(groups), figures.ratio(groups), figures.speed(groups), balanced]
    return [each for each in (*found, None if swept else figures.training(groups)) if each]


def folded(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Section]:
    """What only some readers ask for: laws, departures, records."""
    departures: dict[str, dict[str, None]] = defaultdict(dict)
    for group in groups:
        for words in (str(d) for run in group.finished for d in run.record.departures):
            departures[words][group.style.label] = None
    everyone = len({group.style.label for group in groups})
    items = [
        words if len(whose) == everyone else f"{words} ({', '.join(whose)})"
        for words, whose in departures.items()
    ]
    laws = Section("Laws", figures=figures.laws(chosen))
    named = Section("Departures from the published recipe", items=items)
    return shown([laws, named, Section("Records", records=groups)])


def _real_section(real: dict[str, list[Group]]) -> Section:
    chosen = {name: headline_groups(groups) for name, groups in real.items()}
    drawn = {title_of(name): figures.training(groups) for name, groups in chosen.items()}
    both = [ends for groups in chosen.values() if all((ends := best_of(groups))[:2])]
    ahead = sum(first is learned for learned, _, first in both)
    every = [group for groups in real.values() for group in groups]
    scores = [tables.score_table(groups, title_of(name)) for name, groups in real.items()]
    return Section(
        "Real graphs",
        "Molecules and superpixels of images, each with its own measure.",
        f"A learned aggregator is ahead on {ahead} of {len(both)} data sets where both kinds ran."
        if both
        else "",
        tables=[tables.real_table(chosen)],
        figures=[
            f._replace(title=f"{title}: {f.title.lower()}") for title, f in drawn.items() if f
        ],
        parts=[Section("Scores and effort", tables=scores), *folded(every, every)],
    )


def unfinished(groups: Sequence[Group]) -> list[str]:
    """The runs without results, how far they came, and why they ended."""
    found = [(group, run) for group in groups for run in group.runs if run not in group.finished]
    return [
        f"{title_of(group.experiment)}, {group.style.label}, {group.variant}, seed "
        f"{run.record.seed}: {run.record.status} after {run.record.epochs} of "
        f"{run.option('training', 'epochs')} epochs. {run.record.error or ''}"
        for group, run in found
    ]


def best_of(groups: Sequence[Group]) -> list[Group | None]:
    """The best learned, the best fixed, and the better one of them."""
    metric = headline_score(groups)
    measure, ends = measure_of(metric), []
    for kinds in (LEARNED, ("fixed",), (*LEARNED, "fixed")):
        found = [g for g in groups if g.style.kind in kinds and g.metric(metric)]
        ends.append(max(found, key=lambda g: measure.key(g.metric(metric)), default=None))
    return ends


def _overview(by_experiment: dict[str, list[Group]]) -> Table:
    """An experiment a row: its best learned, best fixed and best published number, and a spark."""
    rows = []
    for name, groups in by_experiment.items():
        metric, (learned, fixed, first) = headline_score(groups), best_of(groups)
        measure, known = measure_of(metric), [g for g in groups if g.reported(metric)]
        theirs = max(known, key=lambda g: measure.key(g.reported(metric)), default=None)
        anchor = "real-graphs" if name in NAMES["real"] else slug_of(title_of(name))
        score = f"{measure.title}, {where(metric)} {measure.arrow}" if metric else "no scores"
        row = [Cell(title_of(name), score, link=f"#{anchor}")]
        for group, mark in ((learned, "best"), (fixed, "best"), (theirs, "")):
            found = (group.metric if mark else group.reported)(metric) if group else None
            cell = tables.number_cell(found, measure.digits)
            if group:
                cell = cell._replace(small=group.style.label, colour=group.style.colour)
            both = learned and fixed and group is first
            row.append(cell._replace(mark=mark if both else ""))
        lines = [line for figure in _figures(groups)[:1] for line in figure.lines]
        wanted = [group.style.label for group in (learned, fixed) if group]
        picked = [line for line in lines if line.label in wanted]
        rows.append((*row, Cell(svg=figures.spark(picked or lines))))
    heads = ("experiment", "best learned", "best fixed", "best published", "")
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return Table("Overview", [Column(h, c, number="best" in h) for h, c in columns], short=4)


def _sentence(groups: Sequence[Group]) -> str:
    """The sentence that a person would say first."""
    metric, (learned, fixed, best) = headline_score(groups), best_of(groups)
    if best is None:
        return ""
    found = {group: each for group in groups if (each := group.metric(metric))}
    other, means = fixed if best is learned else learned, [each.mean for each in found.values()]
    if best.weight is not None and sum(s.high >= max(means) for s in found.values()) > 2:
        ends = f"{min(means):.2f} and {max(means):.2f} ({where(metric)})"
        return f"No weight stands out: accuracy lies between {ends}."
    measure, largest = measure_of(metric), groups[0].runs[0].option("task", "max_train_size")
    told = [found[g].text(measure.digits) if g else "" for g in (best, other)]
    verb = "is fastest with" if metric.startswith("seconds") else "is best with"
    opening = f"{best.style.label} {verb if found.keys() - {best} else 'has'} {told[0]}"
    opening += f" ({measure.title}, {where(metric)})"
    if metric.startswith("accuracy@") and largest:
        told = [f"{100 * found[g].mean:.0f} %" if g else "" for g in (best, other)]
        sets = where(metric).replace("size", "sets of")
        opening = f"{best.style.label} is right {told[0]} of the time on {sets}, after training on "
        opening += f"sets of at most {largest}"
    kind = "learned" if other is learned else "fixed"
    return opening + (f"; {other.style.label}, the best {kind} one, {told[1]}." if other else ".")
