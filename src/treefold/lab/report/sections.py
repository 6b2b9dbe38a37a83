"""What a report says, in the order it says it: an overview, then experiment by experiment."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
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
    """

    title: str
    about: str = ""
    sentence: str = ""
    notes: Sequence[str] = ()
    headline: Figure | None = None
    tables: Sequence[Table | None] = ()
    figures: Sequence[Figure | None] = ()
    items: Sequence[str] = ()
    parts: Sequence["Section"] = ()

    @property
    def anchor(self) -> str:
        """Its place on the page."""
        return slug_of(self.title)

    @property
    def empty(self) -> bool:
        """True if there is nothing to show."""
        shown = (self.headline, *self.tables, *self.figures, *self.items, *self.parts)
        return not any(shown)


def report_page(groups: Sequence[Group], damaged: Sequence[str], out: Path) -> Section:
    """All of a folder of runs; smoke and unfinished runs come last."""
    by_experiment: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.finished and group.preset != "smoke":
            by_experiment[group.experiment].append(group)
    chosen = {name: headline_groups(found) for name, found in by_experiment.items()}
    real = {name: found for name, found in by_experiment.items() if name in NAMES["real"]}
    num_runs = sum(len(group.finished) for group in groups)
    parts = [
        *(_section(found, out) for name, found in by_experiment.items() if name not in real),
        _real_section(real, out),
        _last_section(groups, damaged, out),
    ]
    return Section(
        "treefold results",
        f"{num_runs} finished runs. Numbers are means over seeds, with their standard deviation; "
        "a published number is blank where none is known.",
        tables=[_overview(chosen) if len(chosen) > 1 else None],
        parts=[part for part in parts if not part.empty],
    )


def headline_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups to compare: of the preset with most rows, the strongest among equals.

    Scores may be compared wherever they were made, times only on one machine.
    """
    plain = [group for group in groups if not group.changes] or groups
    counts = Counter(_place(group) for group in plain)
    strong = [*PRESETS, *sorted({group.preset for group in plain} - {*PRESETS})]
    best = max(counts, key=lambda place: (counts[place], -strong.index(place[0])))
    return [group for group in plain if _place(group) == best]


def _place(group: Group) -> tuple[str, str]:
    timed = group.by_key("seconds_per_epoch_by_size")
    return group.preset, group.finished[0].machine if timed else ""


def _section(groups: list[Group], out: Path) -> Section:
    chosen = headline_groups(groups)
    others: dict[str, list[Group]] = defaultdict(list)
    for group in (group for group in groups if group not in chosen):
        machine = _place(group)[1] if _place(group)[1] != _place(chosen[0])[1] else ""
        words = ("changed" if group.changes else "", f"on {machine}" if machine else "")
        others[", ".join(filter(None, (f"Preset {group.preset}", *words)))].append(group)
    drawn = [*_figures(chosen), None]
    folds = [
        Section(
            words, tables=_tables(found), figures=[] if "changed" in words else _figures(found)[:1]
        )
        for words, found in others.items()
    ]
    title, about = TITLES.get(chosen[0].experiment, (chosen[0].experiment, ""))
    return Section(
        title,
        f"{about} Preset {chosen[0].preset}.",
        _sentence(chosen),
        headline=drawn[0],
        tables=_tables(chosen),
        figures=drawn[1:],
        parts=[*folds, *folded(chosen, groups, out)],
    )


def _tables(groups: Sequence[Group]) -> list[Table | None]:
    return [tables.score_table(groups), tables.speed_table(groups)]


def _figures(groups: Sequence[Group]) -> list[Figure]:
    first = [figures.sweep(groups), figures.accuracy(groups), figures.ratio(groups)]
    more = [figures.speed(groups), figures.accuracy(groups, "balanced_accuracy")]
    swept = any(group.weight is not None for group in groups)
    found = [*first, *more, None if swept else figures.training(groups)]
    return [figure for figure in found if figure]


def folded(chosen: Sequence[Group], groups: Sequence[Group], out: Path) -> list[Section]:
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
    found = [
        Section("Laws", figures=figures.laws(chosen)),
        Section("Departures from the published recipe", items=items),
        Section("Records", tables=[tables.records_table(groups, out)]),
    ]
    return [section for section in found if not section.empty]


def _real_section(real: dict[str, list[Group]], out: Path) -> Section:
    chosen = {name: headline_groups(groups) for name, groups in real.items()}
    drawn = {name: figures.training(groups) for name, groups in chosen.items()}
    both = [ends for groups in chosen.values() if all((ends := _best(groups))[:2])]
    ahead = sum(first is learned for learned, _, first in both)
    every = [group for groups in real.values() for group in groups]
    scores = [tables.score_table(groups, title_of(name)) for name, groups in real.items()]
    return Section(
        "Real graphs",
        "Molecules and superpixels of images, each with its own measure.",
        f"A learned aggregator is ahead on {ahead} of {len(both)} data sets where both kinds ran.",
        tables=[tables.real_table(chosen) if chosen else None],
        figures=[f._replace(title=f"{title_of(n)}: {f.title}") for n, f in drawn.items() if f],
        parts=[Section("Scores and effort", tables=scores), *folded(every, every, out)]
        if real
        else (),
    )


def _last_section(groups: Sequence[Group], damaged: Sequence[str], out: Path) -> Section:
    smoke = [group for group in groups if group.preset == "smoke" and group.finished]
    names = dict.fromkeys(group.experiment for group in smoke)
    found = {name: _tables([g for g in smoke if g.experiment == name]) for name in names}
    shown = [t._replace(title=title_of(n)) for n, each in found.items() for t in each if t]
    records = [tables.records_table(smoke, out)] if smoke else []
    folds = [
        Section("Smoke runs", tables=[*shown, *records]),
        Section("Unfinished runs", items=unfinished(groups)),
        Section("Files that could not be read", items=damaged),
    ]
    about = "Runs that only show that everything works, and runs without results."
    parts = [fold for fold in folds if not fold.empty]
    return Section("Smoke and unfinished runs", about, parts=parts)


def unfinished(groups: Sequence[Group]) -> list[str]:
    """The runs without results, how far they came, and why they ended."""
    told = []
    for group in groups:
        for run in (run for run in group.runs if run.record.status != "finished"):
            names = (title_of(group.experiment), group.style.label, group.variant)
            planned, error = run.option("training", "epochs"), run.record.error
            words = f"{', '.join(names)}, seed {run.record.seed}: {run.record.status} after "
            words += f"{run.record.epochs} of {planned} epochs" + (f" ({error})" if error else "")
            told.append(words)
    return told


def _best(groups: Sequence[Group]) -> list[Group | None]:
    """The best learned, the best fixed, and the better one of them."""
    measure, metric, ends = measure_of(headline_score(groups)), headline_score(groups), []
    for kinds in (LEARNED, ("fixed",), (*LEARNED, "fixed")):
        found = [(each, g) for g in groups if g.style.kind in kinds and (each := g.metric(metric))]
        ends.append(max(found, key=lambda pair: measure.key(pair[0]), default=(None, None))[1])
    return ends


def _overview(by_experiment: dict[str, list[Group]]) -> Table:
    """An experiment a row: its best learned, best fixed and best published number, and a spark."""
    rows = []
    for name, groups in by_experiment.items():
        metric = headline_score(groups)
        measure, (learned, fixed, first) = measure_of(metric), _best(groups)
        published = [group for group in groups if group.reported(metric)]
        theirs = max(published, key=lambda g: measure.key(g.reported(metric)), default=None)
        cells = []
        for group, mark in ((learned, "best"), (fixed, "best"), (theirs, "")):
            found = group and (group.metric(metric) if mark else group.reported(metric))
            cell = tables.number_cell(found, measure.digits, mark if group is first else "")
            style = group and group.style
            cells.append(cell._replace(small=style.label, colour=style.colour) if style else cell)
        lines = [line for figure in _figures(groups)[:1] for line in figure.lines]
        wanted = [group.style.label for group in (learned, fixed) if group]
        spark = figures.spark([line for line in lines if line.label in wanted] or lines)
        anchor = "real-graphs" if name in NAMES["real"] else slug_of(title_of(name))
        title = Cell(title_of(name), link=f"#{anchor}")
        score = Cell(f"{measure.title}, {where(metric)} {measure.arrow}")
        rows.append((title, score, *cells, Cell(svg=spark)))
    heads = ("experiment", "score", "best learned", "best fixed", "best published", "")
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return Table("Overview", [Column(h, c, number="best" in h) for h, c in columns], short=5)


def _sentence(groups: Sequence[Group]) -> str:
    """The sentence that a person would say first."""
    metric, (learned, fixed, best) = headline_score(groups), _best(groups)
    found = {group: each for group in groups if (each := group.metric(metric))}
    if best is None:
        return ""
    if metric.startswith("seconds"):
        return _growth([group for group in found if group.style.kind in LEARNED])
    digits, other = measure_of(metric).digits, fixed if best is learned else learned
    if best.weight is not None:
        means, rivals = (
            [s.mean for s in found.values()],
            [s.high >= found[best].low for s in found.values()],
        )
        if sum(rivals) > len(found) / 2:
            ends = f"accuracy lies between {min(means):.2f} and {max(means):.2f} ({where(metric)})"
            return f"No weight stands out: {ends}, and the seeds of one weight differ as much."
    opening = f"{best.style.label} is best with {found[best].text(digits)} ({where(metric)})"
    if other is None:
        return f"{opening}."
    kind = "learned" if other is learned else "fixed"
    return f"{opening}; {other.style.label}, the best {kind} one, has {found[other].text(digits)}."


def _growth(groups: Sequence[Group]) -> str:
    metrics = tables.seconds_of(groups)
    ends = {g: (g.metric(metrics[0]), g.metric(metrics[-1])) for g in groups} if metrics else {}
    grown = [
        f"{b.mean / a.mean:.1f} times for {g.style.label}" for g, (a, b) in ends.items() if a and b
    ]
    sizes = [where(metrics[k]).replace("size", "sets of") for k in (0, -1)] if grown else []
    return f"From {sizes[0]} to {sizes[1]}, an epoch grows {', '.join(grown)}." if grown else ""
