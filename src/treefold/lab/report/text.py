"""Numbers in words, and running text with links to records, written as HTML or as Markdown."""

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from treefold.lab.report.seed_stats import Spread

MISSING = "–"


@dataclass(frozen=True)
class Link:
    """Words that lead to the records they come from."""

    text: str
    anchor: str
    strong: bool = False


@dataclass(frozen=True)
class Small:
    """Words of second rank: on a line of their own in HTML, in line or in brackets in Markdown."""

    text: str
    brackets: bool = True


Piece: TypeAlias = str | Link | Small
Text: TypeAlias = tuple[Piece, ...]


def as_html(text: Text) -> str:
    """The text with everything escaped that it might hold."""
    return "".join(map(_html_piece, text))


def as_markdown(text: Text) -> str:
    """The text on one line, safe in a cell of a table."""
    return "".join(map(_markdown_piece, text))


def escape_markdown(words: str) -> str:
    """The words as they are: no emphasis, link, cell border or HTML comes of them."""
    flat = " ".join(words.split()) if "\n" in words or "\r" in words else words
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", flat)


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


def with_spread(value: float, spread: float | None, digits: int = 3) -> Text:
    """A published value and, where it has one, its spread."""
    words = f"{value:.{digits}f}"
    return (words,) if spread is None else (words, Small(f"± {spread:.{digits}f}", brackets=False))


def mean_and_deviation(spread: Spread, digits: int = 3) -> str:
    """The mean, with the standard deviation where there are several runs."""
    mean = f"{spread.mean:.{digits}f}"
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.{digits}f}"


def range_of(spread: Spread, digits: int = 3) -> Text:
    """From the lowest to the highest run; nothing for one run."""
    words = f"{spread.low:.{digits}f} to {spread.high:.{digits}f}"
    return (Small(words),) if spread.count > 1 else ()


def joined(sentences: Sequence[Text]) -> Text:
    """The sentences one after the other."""
    pieces: list[Piece] = []
    for sentence in sentences:
        pieces += [" ", *sentence] if pieces else sentence
    return tuple(pieces)


def power_of_ten(value: float) -> str:
    """10⁻³ for 0.001, and the plain number for what is no power of ten."""
    exponent = round(math.log10(value)) if value > 0 else 0
    if value <= 0 or not math.isclose(value, 10.0**exponent) or exponent == 0:
        return f"{value:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _html_piece(piece: Piece) -> str:
    if isinstance(piece, Small):
        return f"<small>{html.escape(piece.text)}</small>"
    return html.escape(piece) if isinstance(piece, str) else _html_link(piece)


def _markdown_piece(piece: Piece) -> str:
    if isinstance(piece, Small):
        words = escape_markdown(piece.text)
        return f" ({words})" if piece.brackets else f" {words}"
    return escape_markdown(piece) if isinstance(piece, str) else _markdown_link(piece)


def _html_link(link: Link) -> str:
    words = html.escape(link.text)
    words = f"<strong>{words}</strong>" if link.strong else words
    return f'<a href="#{html.escape(link.anchor)}">{words}</a>'


def _markdown_link(link: Link) -> str:
    words = escape_markdown(link.text)
    words = f"**{words}**" if link.strong else words
    return f"[{words}](#{link.anchor})"
