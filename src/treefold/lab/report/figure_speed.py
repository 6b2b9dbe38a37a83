"""Seconds per epoch against set size, beside the paper's GPU (fig:2min_speedtest)."""

from collections.abc import Sequence

from treefold.lab.report.figure import (
    Axis,
    Figure,
    Line,
    curve,
    log_axis,
    published_points,
    slug_of,
)
from treefold.lab.report.figure_accuracy import size_ticks
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import Group
from treefold.lab.report.hardware import conditions_of
from treefold.lab.report.published_seconds import published_seconds
from treefold.lab.report.styles import Style
from treefold.lab.report.table_notes import notes_of


def speed_figure(groups: Sequence[Group], styles: dict[str, Style]) -> Figure | None:
    """One curve for each aggregator on this machine, diamonds for the paper's."""
    drawn = [group for group in groups if group.seconds_by_size()]
    if not drawn:
        return None
    lines = [
        curve(
            styles[group.row].label,
            group.seconds_by_size(),
            styles[group.row].colour,
            styles[group.row].dash,
            "lines+markers",
            positive=True,
        )
        for group in drawn
    ]
    lines += [_published(group, styles[group.row]) for group in drawn]
    shown = tuple(line for line in lines if line)
    sizes = sorted({size for group in drawn for size in group.seconds_by_size()})
    return Figure(
        slug_of("seconds", drawn[0].experiment, drawn[0].variant),
        f"Time per epoch against set size: {drawn[0].experiment}",
        note_of(drawn, styles),
        _caption(drawn),
        Axis("integers in the set", True, *_ticks(sizes)),
        log_axis("seconds per epoch", shown),
        shown,
        sources=sources_of(drawn, styles),
    )


def _published(group: Group, style: Style) -> Line | None:
    points = {float(size): entry for size, entry in published_seconds(group).items()}
    return published_points(f"{style.label}, paper's GPU", points, style.colour)


def _ticks(sizes: Sequence[int]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    # Measured sizes are few and chosen; powers of two would hide them.
    return (
        (tuple(map(float, sizes)), tuple(map(str, sizes))) if len(sizes) < 9 else size_ticks(sizes)
    )


def _caption(groups: Sequence[Group]) -> str:
    sentences = [conditions_of(groups), "The band is the range over repetitions."]
    sentences += [f"{departure}." for departure in notes_of(groups)]
    sources = {e.source for group in groups for e in published_seconds(group).values()}
    if sources:
        sentences.append(f"Diamonds are the paper's GPU ({'; '.join(sorted(sources))}).")
    return " ".join(sentences)
