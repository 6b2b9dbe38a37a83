"""How an aggregator looks: one label, kind, colour and dash for it on the whole page.

The colours are those of Okabe and Ito, then Tol: told apart by colour-blind people, and readable
on white and on black. Dashes repeat the difference between learned and fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treefold.lab.report.groups import Group
from treefold.lab.report.text import power_of_ten

Dash: TypeAlias = Literal["solid", "dash", "dot"]
GREY = "#8A8A8A"


@dataclass(frozen=True)
class Style:
    """What a reader recognises an aggregator by."""

    label: str
    kind: str
    colour: str
    dash: Dash = "solid"


KNOWN = {
    "gru": Style("GRU", "recurrent", "#D55E00"),
    "gated-selection-general": Style("Gated selection, general", "LCM", "#9933CC"),
    "gated-selection": Style("Gated selection", "LCM", "#CC3377"),
    "binary-gru-assoc": Style("Binary-GRU-Assoc", "LCM", "#0072B2"),
    "binary-gru": Style("Binary-GRU", "LCM", "#56B4E9"),
    "binary-gru-readout": Style("Binary-GRU, learned readout", "LCM", "#5D78C9"),
    "pna": Style("PNA", "fixed", "#009E73", "dash"),
    "max": Style("Max", "fixed", "#E69F00", "dash"),
    "sum": Style("Sum", "fixed", "#CC79A7", "dash"),
    "pna-one-tower": Style("PNA, one tower", "fixed", "#2CA0A0", "dash"),
    "pna-16": Style("PNA-16", "fixed", "#009E73", "dash"),
    "mpnn-max": Style("MPNN (max)", "fixed", "#E69F00", "dash"),
    "mpnn-sum": Style("MPNN (sum)", "fixed", "#CC79A7", "dash"),
    "gat": Style("GAT", "fixed", "#C0504D", "dot"),
    "gcn": Style("GCN", "fixed", "#7F7FFF", "dot"),
    "gin": Style("GIN", "fixed", "#8C6D31", "dot"),
    "oracle": Style("Oracle", "exact", GREY),
}
LEARNED = ("recurrent", "LCM")
_KINDS = {
    **dict.fromkeys(("sum", "mean", "max", "min", "std", "pna"), "fixed"),
    **dict.fromkeys(("gru", "lstm"), "recurrent"),
    **dict.fromkeys(("binary-gru", "binary-gru-assoc", "binary-mlp"), "LCM"),
    **dict.fromkeys(("gated-selection", "gated-selection-general"), "LCM"),
    **dict.fromkeys(("conjugated-sum", "conjugated-max"), "LCM"),
    **dict.fromkeys(("gcn", "gat", "gin"), "fixed"),
    "oracle": "exact",
}
_SPARE = ("#AA4499", "#44AA99", "#999933", "#CC6677", "#7B6FD0", "#A6761D")
_SCALE = ("#FDE725", "#A0DA39", "#4AC16D", "#1FA187", "#277F8E", "#365C8D", "#46327E", "#440154")


def style_groups(groups: Sequence[Group]) -> dict[str, Style]:
    """A style for each row; rows of a sweep share a scale, others beyond the known get spares."""
    swept = {group.row: group for group in groups if group.is_sweep}
    weights = sorted({group.weight or 0.0 for group in swept.values()}, reverse=True)
    colours = dict(zip(weights, scale(len(weights)), strict=True))
    styles = dict(KNOWN)
    for row, group in sorted(swept.items()):
        weight = group.weight or 0.0
        styles[row] = Style(f"λ = {power_of_ten(weight)}", "LCM", colours[weight])
    others = {group.row: group for group in groups if group.row not in styles}
    for place, (row, group) in enumerate(sorted(others.items())):
        kind = _KINDS.get(str(group.runs[0].option("aggregator", "name")), "other")
        dashes: tuple[Dash, ...] = ("solid", "dash", "dot")
        dash = dashes[place // len(_SPARE) % 3]
        styles[row] = Style(row, kind, _SPARE[place % len(_SPARE)], dash)
    return styles


def scale(count: int) -> list[str]:
    """That many colours in an order that the eye sees as one, from dark to light."""
    # The lightest two vanish on white and the darkest two on black: keep to the middle.
    usable = _SCALE[-3:1:-1]
    if count <= 1:
        return [usable[0]] * count
    return [_between(usable, place * (len(usable) - 1) / (count - 1)) for place in range(count)]


def rgb(colour: str) -> tuple[int, int, int]:
    """The red, green and blue of `#rrggbb`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _between(colours: Sequence[str], place: float) -> str:
    left = min(int(place), len(colours) - 2)
    share = place - left
    pairs = zip(rgb(colours[left]), rgb(colours[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)
