"""What became of a law during training, in a sentence."""

from collections.abc import Sequence

from treefold.report.figure_training import LAW, is_rounding, law_columns, over_epochs
from treefold.report.groups import Group
from treefold.report.styles import Style
from treefold.report.text import Link, Text

MEANT = 1.2
"""A rise or fall by less than this factor is not worth a word."""


def law_sentences(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """For each aggregator without a law loss: did the violation rise, and did it fall again?"""
    sentences: list[Text] = []
    for column in law_columns(groups):
        law = column.removeprefix(LAW)
        for group in groups:
            curve = over_epochs(group.finished, column)
            # What is penalized falls because it is penalized.
            if len(curve) < 3 or group.weight or group.is_sweep:
                continue
            if is_rounding(group.finished, column):
                words = f"{styles[group.row].label} obeys {law} up to rounding."
                sentences.append((words,))
                continue
            sentences.append(_course(group, law, column, styles[group.row]))
    return sentences


def _course(group: Group, law: str, column: str, style: Style) -> Text:
    curve = {epoch: s.mean for epoch, s in over_epochs(group.finished, column).items()}
    epochs = list(curve)
    start, end = curve[epochs[0]], curve[epochs[-1]]
    peak = max(curve, key=lambda epoch: curve[epoch])
    rose, fell = curve[peak] > MEANT * start, curve[peak] > MEANT * end
    course = {
        (True, True): f"rose to {curve[peak]:.2g} at epoch {peak} and fell to",
        (True, False): "rose to",
        (False, True): "fell to",
        (False, False): "stayed near",
    }[rose, fell]
    words = f"Over training, {style.label}'s mean relative violation of {law} was "
    tail = Link(f"{end:.2g}", group.anchor)
    return (
        words,
        Link(f"{start:.2g}", group.anchor),
        f" after epoch {epochs[0]}, ",
        course,
        " ",
        tail,
        f" after epoch {epochs[-1]}.",
    )
