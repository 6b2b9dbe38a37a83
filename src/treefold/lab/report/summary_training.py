"""What became of the laws during training, in words."""

from collections.abc import Sequence

from treefold.lab.report.figure_training import LAW, is_rounding, law_columns, over_epochs
from treefold.lab.report.groups import Group
from treefold.lab.report.styles import Style
from treefold.lab.report.text import Link, Piece, Text, listed

MEANT = 1.15
"""A rise or fall by less than this factor is not worth a word."""


def law_points(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """For each law: who obeys it by construction, and for the others, did it rise and then fall?"""
    points: list[Text] = []
    for column in law_columns(groups):
        logged = [g for g in groups if over_epochs(g.finished, column) and not g.is_sweep]
        exact = [group for group in logged if is_rounding(group.finished, column)]
        law = column.removeprefix(LAW)
        if exact:
            names = listed([styles[group.row].label for group in exact])
            points.append((f"The {law} law holds up to rounding for {names}.",))
        courses = [_course(g, column, styles[g.row]) for g in logged if g not in exact]
        if courses:
            opening = f"Mean relative violation of the {law} law in training: "
            points.append((opening, *_joined(courses), "."))
    return points


def _course(group: Group, column: str, style: Style) -> Text:
    curve = {epoch: s.mean for epoch, s in over_epochs(group.finished, column).items()}
    first, last, peak = min(curve), max(curve), max(curve, key=lambda epoch: curve[epoch])
    low = min((epoch for epoch in curve if epoch <= peak), key=lambda epoch: curve[epoch])
    rose, fell = curve[peak] > MEANT * curve[first], curve[peak] > MEANT * curve[last]
    start, dip, top, end = (Link(f"{curve[e]:.2g}", group.anchor) for e in (first, low, peak, last))
    if curve[first] > MEANT * curve[low]:
        back: Text = (f" at epoch {low}, rose to ", top, f" at epoch {peak} and ")
        course: Text = (
            " fell from ",
            start,
            " to ",
            dip,
            *back,
            "fell to " if fell else "ended at ",
            end,
        )
    elif rose and fell:
        course = (" rose from ", start, " to ", top, f" at epoch {peak} and fell to ", end)
    elif rose or fell:
        course = (" rose" if rose else " fell", " from ", start, " to ", end)
    else:
        course = (" stayed near ", end)
    return (style.label, *course)


def _joined(courses: Sequence[Text]) -> list[Piece]:
    pieces: list[Piece] = []
    for course in courses:
        pieces += ["; ", *course] if pieces else course
    return pieces
