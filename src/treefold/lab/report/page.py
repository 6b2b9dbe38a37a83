"""The page: one HTML file that needs nothing else, not even a network."""

import html
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from treefold.lab.report.appendix import records_html
from treefold.lab.report.content import Content
from treefold.lab.report.draw_plotly import plotly_figure
from treefold.lab.report.figure import Figure, slug_of
from treefold.lab.report.page_parts import POLICY, SCRIPT, STYLE
from treefold.lab.report.runs import Damaged
from treefold.lab.report.summary import Paragraph
from treefold.lab.report.table import table_html
from treefold.lab.report.text import as_html

MAX_BYTES = 6_000_000
_log = logging.getLogger("treefold")


def page_html(content: Content, out: Path) -> str:
    """The whole page; records are embedded as far as its size allows."""
    before = "\n".join(
        [
            *_head(content.title),
            f"<h1>{html.escape(content.title)}</h1>",
            _contents(content),
            *(_paragraph(paragraph) for paragraph in content.summary),
            *_section("Tables", [table_html(table) for table in content.tables]),
            *_section("Figures", [_figure_html(figure) for figure in content.figures]),
            *_damaged(content.damaged),
        ]
    )
    after = "\n".join(["</main>", *_scripts(content.figures), "</body></html>", ""])
    budget = MAX_BYTES - len(before.encode()) - len(after.encode()) - 1000
    if budget < 0:
        _log.warning(
            "the page has more than %d MB before any record; report on fewer runs at once",
            MAX_BYTES // 10**6,
        )
    records = _section("Records", [records_html(content.groups, out, budget)])
    return "\n".join([before, *(records if content.groups else []), after])


def _head(title: str) -> list[str]:
    return [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style></head><body><main>",
    ]


def _paragraph(paragraph: Paragraph) -> str:
    points = "".join(f"<li>{as_html(point)}</li>" for point in paragraph.points)
    return f"<p>{as_html(paragraph.text)}</p>" + (f"<ul>{points}</ul>" if points else "")


def _contents(content: Content) -> str:
    """A line of links to the sections, so that nobody must scroll past the words."""
    parts = {"Tables": content.tables, "Figures": content.figures, "Records": content.groups}
    links = [f'<a href="#{slug_of(title)}">{title}</a>' for title, found in parts.items() if found]
    return f'<nav class="note">On this page: {" · ".join(links)}</nav>' if links else ""


def _section(title: str, pieces: Sequence[str]) -> list[str]:
    opening = f'<section id="{slug_of(title)}"><h2>{title}</h2>'
    return [opening, *pieces, "</section>"] if pieces else []


def _figure_html(figure: Figure) -> str:
    files = " ".join(
        f'<a href="figures/{figure.slug}.{kind}">{kind.upper()}</a>' for kind in ("png", "svg")
    )
    return (
        f"<figure><h3>{html.escape(figure.title)}</h3>"
        f'<p class="note">{html.escape(figure.note)}</p>'
        f'<div class="plot" id="{figure.slug}"><noscript>Drawn by JavaScript; without it, '
        f"see the files below.</noscript></div>"
        f"<figcaption>{html.escape(figure.caption)} {as_html(figure.source_text())} "
        f"Files: {files}</figcaption></figure>"
    )


def _damaged(damaged: Sequence[Damaged]) -> list[str]:
    if not damaged:
        return []
    items = "".join(
        f"<li><code>{html.escape(item.place)}</code>: {html.escape(item.reason)}</li>"
        for item in damaged
    )
    return _section("Files that could not be read", [f"<ul>{items}</ul>"])


def _scripts(figures: Sequence[Figure]) -> list[str]:
    if not figures:
        return []
    drawings = {figure.slug: plotly_figure(figure) for figure in figures}
    data = json.dumps(drawings, separators=(",", ":"), allow_nan=False)
    # Inside a script element only the end tag and comments are special: leave no angle bracket.
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return [
        f"<script>{get_plotlyjs()}</script>",
        f'<script type="application/json" id="drawings">{data}</script>',
        f"<script>{SCRIPT}</script>",
    ]
