"""What was compared and what came out, in plain words made from the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from treefold.lab.report.groups import Group, sections
from treefold.lab.report.styles import Style
from treefold.lab.report.summary_order import order_points
from treefold.lab.report.summary_scores import opening, score_points
from treefold.lab.report.summary_speed import speed_opening, speed_points
from treefold.lab.report.summary_training import law_points
from treefold.lab.report.text import Text, counted, joined


@dataclass(frozen=True)
class Paragraph:
    """A paragraph and the points under it."""

    text: Text
    points: tuple[Text, ...] = ()


def summarize(
    groups: Sequence[Group], styles: dict[str, Style], num_damaged: int
) -> list[Paragraph]:
    """One paragraph for each experiment and preset, then what is missing."""
    paragraphs = []
    for members in sections(groups).values():
        finished = [group for group in members if group.finished]
        points = [
            *score_points(finished, styles),
            *order_points(finished, styles),
            *law_points(finished, styles),
        ]
        if points:
            paragraphs.append(Paragraph(opening(finished, styles), tuple(points)))
        if speeds := speed_points(finished, styles):
            paragraphs.append(Paragraph(speed_opening(finished), tuple(speeds)))
    cautions = _cautions(groups, num_damaged)
    return [*paragraphs, *([Paragraph(joined(cautions))] if cautions else [])]


def _cautions(groups: Sequence[Group], num_damaged: int) -> list[Text]:
    trained = [group for group in groups if group.finished and not group.seconds_by_size()]
    single = [g for g in trained if len({run.record.seed for run in g.finished}) == 1]
    unfinished = sum(len(group.unfinished) for group in groups)
    told: list[Text] = []
    if single:
        rows = f"{len(single)} of {counted(len(trained), 'row')}"
        told.append((f"One seed only: {rows}; small differences mean little there.",))
    if unfinished:
        told.append((f"Not finished, and in no mean: {counted(unfinished, 'run')}, listed below.",))
    if num_damaged:
        told.append((f"Could not be read: {counted(num_damaged, 'file')}, listed below.",))
    return told
