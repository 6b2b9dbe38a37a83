"""What things are called and how they look, as `names.toml` has it."""

import math
import re
import tomllib
import zlib
from pathlib import Path
from typing import Any, NamedTuple

NAMES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
TITLES: dict[str, list[str]] = {**NAMES["experiments"], **NAMES["real"]}
PRESETS, GREY = ("paper", "standard", "quick", "smoke"), "#8a8f98"
_SPARE = ("#aa4499", "#44aa99", "#999933", "#cc6677", "#7b6fd0", "#a6761d")
_SCALE = (*("#482878", "#3e4989", "#31688e", "#26828e"), "#1f9e89", "#35b779", "#6ece58", "#a5c82a")


class Style(NamedTuple):
    """What a reader recognises an aggregator by."""

    label: str
    kind: str
    colour: str
    dash: str = "solid"


STYLES = {row: Style(*entry) for row, entry in NAMES["aggregators"].items()}


def style_of(row: str, aggregator: str = "", weight: float | None = None) -> Style:
    """The style of a row; a point of a sweep has its λ, an unknown row a colour by its name."""
    if weight is not None:
        place = -math.log10(weight) / 7 if weight > 0 else 1.0
        return Style(f"λ = {power_of_ten(weight)}", "LCM", scale(min(max(place, 0.0), 1.0)))
    kind = STYLES[aggregator].kind if aggregator in STYLES else "other"
    return STYLES.get(row) or Style(row, kind, _SPARE[zlib.crc32(row.encode()) % len(_SPARE)])


def scale(place: float) -> str:
    """A colour between dark and light, by a place from 0 to 1."""
    return _SCALE[round(place * (len(_SCALE) - 1))]


def power_of_ten(value: float) -> str:
    """10⁻³ for 0.001, and the plain number for what is no power of ten."""
    if not (power := re.fullmatch(r"1e([+-]\d+)", f"{value:e}".replace(".000000", ""))):
        return f"{value:g}"
    exponent = str(int(power[1])).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return "1" if exponent == "⁰" else f"10{exponent}"


def source_in_words(source: str) -> str:
    """A source as a reader finds it: LaTeX labels are names of tables and figures."""
    plain = re.sub(r"\b(?:tab|fig|subsec|sec):\w+", "the paper", source)
    return NAMES["sources"].get(source) or plain or "source not recorded"


def slug_of(*parts: str) -> str:
    """The parts as a name for files and anchors, whatever they hold."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:80].strip("-")


def title_of(experiment: str) -> str:
    """What a reader calls an experiment."""
    return TITLES.get(experiment, [experiment])[0]
