"""Names and looks of what a report shows, as `names.toml` has them, and the order to show it in."""

import colorsys
import math
import re
import tomllib
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from treefold.lab.experiments import FAMILIES, SOURCES, TITLES
from treefold.lab.runs import Group

REAL = FAMILIES["real graphs"].rows
PRESETS, GREY = ("paper", "standard", "quick", "smoke"), "#8a8f98"
LEARNED = ("recurrent", "LCM")
_SCALE = (*("#482878", "#3e4989", "#31688e", "#26828e"), "#1f9e89", "#35b779", "#6ece58", "#a5c82a")


class Style(NamedTuple):
    """The name and the looks of an aggregator."""

    label: str
    kind: str
    colour: str
    dash: str = "solid"


_ENTRIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
STYLES = {row: Style(*entry) for row, entry in _ENTRIES.items()}


def style_of(group: Group) -> Style:
    """The style of its row; a point of a sweep has its λ, a variant the label of its base."""
    row, weight = group.row, group.weight
    if weight is not None:
        power = round(-math.log10(weight)) if weight > 0 else 7
        return Style(f"λ\u00a0=\u00a0{weight:g}", "LCM", _SCALE[min(max(power, 0), 7)])
    if row in STYLES:
        return STYLES[row]
    base = max((each for each in STYLES if row.startswith(f"{each}-")), key=len, default="")
    label = f"{STYLES[base].label} ({row[len(base) + 1 :]})" if base else title_of(row)
    kind = STYLES[group.aggregator].kind if group.aggregator in STYLES else "other"
    parts = colorsys.hls_to_rgb(zlib.adler32(row.encode()) * 137 % 360 / 360, 0.5, 0.5)
    return Style(label, kind, "#" + "".join(f"{round(255 * part):02x}" for part in parts))


def source_in_words(source: str) -> str:
    """A source as a reader finds it: LaTeX labels are names of tables and figures."""
    plain = re.sub(r"\b(?:tab|fig|subsec|sec):\w+", "the paper", source)
    return SOURCES.get(source) or plain or "source not recorded"


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
