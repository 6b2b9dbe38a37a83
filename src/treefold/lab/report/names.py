"""Names and looks of what a report shows, as `names.toml` has them, and the order to show it in."""

import math
import re
import tomllib
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from treefold.lab.experiments import FAMILIES, TITLES
from treefold.lab.runs import Group

NAMES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
REAL = FAMILIES["real graphs"].rows
PRESETS, GREY = ("paper", "standard", "quick", "smoke"), "#8a8f98"
LEARNED = ("recurrent", "LCM")
_SPARE = ("#aa4499", "#44aa99", "#999933", "#cc6677", "#7b6fd0", "#a6761d")
_SCALE = (*("#482878", "#3e4989", "#31688e", "#26828e"), "#1f9e89", "#35b779", "#6ece58", "#a5c82a")
"""Colours of λ = 1 to 10⁻⁷."""


class Style(NamedTuple):
    """What a reader recognises an aggregator by."""

    label: str
    kind: str
    colour: str
    dash: str = "solid"


STYLES = {row: Style(*entry) for row, entry in NAMES["aggregators"].items()}


def style_of(group: Group) -> Style:
    """The style of its row; a point of a sweep has its λ, an unknown row a colour by its name."""
    row, weight = group.row, group.weight
    if weight is not None:
        power = round(-math.log10(weight)) if weight > 0 else 7
        return Style(f"λ = {power_of_ten(weight)}", "LCM", _SCALE[min(max(power, 0), 7)])
    kind = STYLES[group.aggregator].kind if group.aggregator in STYLES else "other"
    return STYLES.get(row) or Style(row, kind, _SPARE[zlib.crc32(row.encode()) % len(_SPARE)])


def power_of_ten(value: float) -> str:
    """10⁻³ for 0.001, and the plain number for what is no power of ten."""
    digits, _, exponent = f"{value:e}".partition("e")
    if digits != "1.000000" or value == 1:
        return f"{value:g}"
    return "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def source_in_words(source: str) -> str:
    """A source as a reader finds it: LaTeX labels are names of tables and figures."""
    plain = re.sub(r"\b(?:tab|fig|subsec|sec):\w+", "the paper", source)
    return NAMES["sources"].get(source) or plain or "source not recorded"


def slug_of(*parts: str) -> str:
    """The parts as a name for files and anchors, whatever they hold."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:80].strip("-")


def title_of(experiment: str) -> str:
    """The name of an experiment for a reader."""
    return TITLES.get(experiment, (experiment,))[0]


def anchor_of(group: Group) -> str:
    """The place of its records on a page."""
    parts = (group.experiment, group.row, group.variant, group.timed_on)
    return f"{slug_of(*parts[:2])}-{zlib.crc32(repr(parts).encode()):08x}"


def in_order(groups: Iterable[Group]) -> list[Group]:
    """Groups as a reader expects them: by experiment, preset and row, those with changes last."""
    place = {name: number for number, name in enumerate((*TITLES, *PRESETS, *STYLES))}

    def key(group: Group) -> tuple[Any, ...]:
        names = (group.experiment, group.preset, group.row)
        experiment, preset, row = (place.get(name, 99) for name in names)
        first = experiment, names[0], bool(group.changes), preset, group.variant
        return *first, -(group.weight or 0), row, names

    return sorted(groups, key=key)
