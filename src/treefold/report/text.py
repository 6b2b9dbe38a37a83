"""Numbers in words, and running text with links to records, written as HTML or as Markdown."""

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from treefold.report.spread import Spread

MISSING = "–"


@dataclass(frozen=True)
class Link:
    """Words that lead to the records they come from."""

    text: str
    anchor: str
    strong: bool = False


Text: TypeAlias = tuple[str | Link, ...]


def as_html(text: Text) -> str:
    """The text with everything escaped that it might hold."""
    return "".join(html.escape(p) if isinstance(p, str) else _html_link(p) for p in text)


def as_markdown(text: Text) -> str:
    """The text on one line, safe in a cell of a table."""
    return "".join(escape_markdown(p) if isinstance(p, str) else _markdown_link(p) for p in text)


def escape_markdown(words: str) -> str:
    """The words as they are: no emphasis, link, cell border or HTML comes of them."""
    flat = " ".join(words.split()) if "\n" in words or "\r" in words else words
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$])", r"\\\1", flat)


def listed(words: Sequence[str]) -> str:
    """The words with commas, and `and` before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign, and no sign where it rounds to nothing."""
    words = f"{value:+.{digits}f}".replace("-", "−")
    return words if re.search("[1-9]", words) else words[1:]


def mean_and_deviation(spread: Spread, digits: int = 3) -> str:
    """The mean, with the standard deviation where there are several runs."""
    mean = f"{spread.mean:.{digits}f}"
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.{digits}f}"


def range_of(spread: Spread, digits: int = 3) -> str:
    """From the lowest to the highest run; nothing for one run."""
    return "" if spread.count < 2 else f" ({spread.low:.{digits}f} to {spread.high:.{digits}f})"


def power_of_ten(value: float) -> str:
    """10⁻³ for 0.001, and the plain number for what is no power of ten."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if value <= 0 or not math.isclose(value, 10.0**exponent) or exponent == 0:
        return f"{value:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _html_link(link: Link) -> str:
    words = html.escape(link.text)
    words = f"<strong>{words}</strong>" if link.strong else words
    return f'<a href="#{html.escape(link.anchor)}">{words}</a>'


def _markdown_link(link: Link) -> str:
    words = escape_markdown(link.text)
    words = f"**{words}**" if link.strong else words
    return f"[{words}](#{link.anchor})"
