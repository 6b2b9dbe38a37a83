"""The page of a report, in the order it says things: an overview, then experiment by experiment."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from treefold.lab.experiments import TITLES, headline_score, measure_of, where
from treefold.lab.report import figures, names
from treefold.lab.report.draw import Figure
from treefold.lab.report.names import style_of, title_of
from treefold.lab.report.tables import Cell, Table, real_table, score_table
from treefold.lab.runs import Group, Stat


class Section(NamedTuple):
    """An experiment: the sentence a person would say first, its headline, then all the rest.

    `records` are listed; `parts` are folded away, but those of a page are its sections.
    """

    title: str
    about: str = ""
    sentence: str = ""
    notes: Sequence[str] = ()
    headline: Figure | None = None
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    records: Sequence[Group] = ()
    parts: Sequence["Section"] = ()

    @property
    def shown(self) -> list["Section"]:
        """The parts that have something to show."""
        return [part for part in self.parts if any(part[3:-1]) or part.shown]


def report_page(groups: Sequence[Group], damaged: Sequence[str] = ()) -> Section:
    """All of a folder of runs; smoke and unfinished runs come last."""
    finished = [group for group in names.in_order(groups) if group.finished]
    smoke = [group for group in finished if group.preset == "smoke"]
    results = groupby((g for g in finished if g not in smoke), lambda group: group.experiment)
    found = {name: [*rows] for name, rows in results}
    real = {name: found[name] for name in found if name in names.REAL}
    parts = [_section(rows) for name, rows in found.items() if name not in real]
    parts += [_real_section(real)] if real else []
    last = [Section("Smoke runs", records=smoke), *unfinished(names.in_order(groups), damaged)]
    parts.append(Section("Smoke and unfinished runs", "They are no results.", parts=last))
    about = (
        f"{sum(len(group.finished) for group in groups)} finished runs. Numbers are means over "
        "seeds, with their standard deviation; a published number is blank where none is known."
    )
    tables = [_overview(found)] if len(found) > 1 else []
    page = Section("treefold results", about, tables=tables, parts=parts)
    return page._replace(parts=page.shown)


def arranged(groups: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    """The groups that may be compared, with what they share; those of most rows come first.

    Overrides differ in what they change, and times in the machine.
    """
    found = defaultdict(list)
    for group in groups:
        machine = f", on {group.timed_on}" * bool(group.timed_on)
        found[f"Preset {group.preset}{', changed' * bool(group.changes)}{machine}"].append(group)
    strength = [*names.PRESETS, *sorted(group.preset for group in groups)]

    def rank(item: tuple[str, list[Group]]) -> tuple[bool, int, int]:
        first, *others = item[1]
        return bool(first.changes), -len(others), strength.index(first.preset)

    return sorted(found.items(), key=rank)


def _section(groups: list[Group]) -> Section:
    (shared, chosen), *others = arranged(groups)
    title, about = TITLES.get(chosen[0].experiment, (chosen[0].experiment, ""))
    made = Section(title, f"{about} {shared}.", _sentence(chosen), tables=score_table(chosen))
    drawn = _figures(chosen)
    folds = [
        Section(name, tables=score_table(rows), figures=_figures(rows)[:1]) for name, rows in others
    ]
    parts = [*folds, *folded(chosen, groups)]
    return made._replace(headline=next(iter(drawn), None), figures=drawn[1:], parts=parts)


def _figures(groups: Sequence[Group]) -> list[Figure]:
    """The figures of groups that may be compared; those with changes differ in what was changed."""
    if any(group.variant != groups[0].variant for group in groups):
        return []
    found = [make(groups) for make in (figures.accuracy, figures.ratio, figures.speed)]
    swept = any(group.weight is not None for group in groups)
    found += [figures.accuracy(groups, "balanced_accuracy")]
    found += [] if swept else [figures.training(groups)]
    return [figure for figure in found if figure]


def folded(chosen: Sequence[Group], groups: Sequence[Group]) -> list[Section]:
    """The parts that only some readers ask for."""
    laws = Section("Laws", figures=figures.laws(chosen))
    return [laws, Section("Records, and departures from the published recipe", records=groups)]


def _real_section(real: Mapping[str, list[Group]]) -> Section:
    chosen = {name: arranged(groups)[0][1] for name, groups in real.items()}
    both = [ends for groups in chosen.values() if all((ends := best_of(groups))[:2])]
    ahead = sum(first is learned for learned, _, first in both)
    words = f"A learned aggregator is ahead on {ahead} of {len(both)} data sets where both ran."
    about = "Molecules and superpixels of images, each with its own measure."
    parts = [_section(groups) for groups in real.values()]
    tables = [real_table(chosen)]
    return Section("Real graphs", about, words if both else "", tables=tables, parts=parts)


def unfinished(groups: Sequence[Group], damaged: Sequence[str]) -> list[Section]:
    """The runs without results, how far they came, and why they ended."""
    left = [[run for run in group.runs if run not in group.finished] for group in groups]
    runs = Section("Unfinished runs", records=[Group(each) for each in left if each])
    return [runs, Section("Files that could not be read", notes=damaged)]


def best_of(groups: Sequence[Group]) -> list[Group | None]:
    """The best learned, the best fixed, and the better one of them."""
    metric = headline_score(groups)
    measure, ends = measure_of(metric), list[Group | None]()
    for kinds in (names.LEARNED, ("fixed",), (*names.LEARNED, "fixed")):
        found = [g for g in groups if style_of(g).kind in kinds and g.metric(metric)]
        ends.append(max(found, key=lambda g: measure.key(g.metric(metric)), default=None))
    return ends


def _overview(found: Mapping[str, list[Group]]) -> Table:
    """An experiment a row: its best learned, best fixed and best published number, and a spark."""
    rows = [_overview_row(name, arranged(groups)[0][1]) for name, groups in found.items()]
    heads = ("experiment", "best learned", "best fixed", "best published", "")
    columns = zip(heads, map(list, zip(*rows, strict=True)), strict=True)
    return Table("Overview", dict(columns), short=4)


def _overview_row(name: str, groups: Sequence[Group]) -> list[Cell]:
    metric, (learned, fixed, first) = headline_score(groups), best_of(groups)
    measure = measure_of(metric)
    # The times of somebody else's machine are no rivals of ours.
    known = [g for g in groups if g.reported(metric) and not g.timed_on]
    theirs = max(known, key=lambda g: measure.key(g.reported(metric)), default=None)

    def number(group: Group | None, of: Callable[[Group], Stat | None], best: bool) -> Cell:
        if group is None or (found := of(group)) is None:
            return Cell()
        label, _, colour, _ = style_of(group)
        return Cell(found.text(measure.digits).split()[0], label, "best" * best, colour)

    score = f"{measure.title}, {where(metric)}\u00a0{measure.arrow}" if metric else "no scores"
    drawn = _figures(groups)[:1]
    ours = [group for group in (learned, fixed) if group]
    labels = [style_of(group).label for group in ours]
    return [
        Cell(title_of(name), score, link=f"#{names.slug_of(title_of(name))}"),
        number(learned, lambda g: g.metric(metric), first is learned and len(ours) > 1),
        number(fixed, lambda g: g.metric(metric), first is fixed and len(ours) > 1),
        number(theirs, lambda g: g.reported(metric), False),
        Cell(svg="".join(figures.spark(figure, labels) for figure in drawn)),
    ]


def _sentence(groups: Sequence[Group]) -> str:
    """The sentence that a person would say first."""
    metric, (learned, fixed, best) = headline_score(groups), best_of(groups)
    if best is None:
        return ""
    measure, other = measure_of(metric), fixed if best is learned else learned
    found = {group: each for group in groups if (each := group.metric(metric))}
    means = [each.mean for each in found.values()]
    if best.weight is not None and sum(s.high >= max(means) for s in found.values()) > 2:
        ends = f"{min(means):.2f} and {max(means):.2f} ({where(metric)})"
        return f"No weight stands out: {measure.title} lies between {ends}."
    told = {group: each.text(measure.digits) for group, each in found.items()}
    verb = "is fastest with" if best.timed_on else "is best with" if other else "has"
    opening = f"{verb} {told[best]} ({measure.title}, {where(metric)})"
    largest = groups[0].runs[0].option("task", "max_train_size")
    if metric.startswith("accuracy@") and largest:
        told = {group: f"{100 * each.mean:.0f} %" for group, each in found.items()}
        sets = where(metric).replace("size", "sets of")
        opening = (
            f"is right {told[best]} of the time on {sets}, after training on at most {largest}"
        )
    kind = "learned" if other is learned else "fixed"
    more = f"; {style_of(other).label}, the best {kind} one, {told[other]}" if other else ""
    return f"{style_of(best).label} {opening}{more}."
