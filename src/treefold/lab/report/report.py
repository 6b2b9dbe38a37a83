"""From a folder of runs to one page that needs nothing else, and a table for the terminal."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from treefold.atomic import write_atomically
from treefold.lab.report.draw import WIDE, draw
from treefold.lab.report.names import anchor_of, slug_of, style_of, title_of
from treefold.lab.report.sections import Section, report_page
from treefold.lab.report.tables import Table
from treefold.lab.runs import load_groups

_STYLES = {"best": "bold", "second": "underline"}


def write_report(runs: Path, out: Path) -> Path:
    """Write `report.html` into `out` from every record below `runs`, and print its table.

    The same records give the same bytes. A folder without records is a ValueError.
    """
    return write_page(report_page(*load_groups(runs)), out / "report.html")


def write_page(page: Section, path: Path) -> Path:
    """Write a page to a file that loads nothing, then print its first table and its path."""

    def address(folder: Path) -> str:
        return quote(os.path.relpath(folder.resolve(), path.parent.resolve()), safe="/,=+")

    made = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = made.from_string(Path(__file__).with_name("page.html").read_text())
    tools: dict[str, Any] = {"draw": draw, "wide": WIDE, "address": address, "style_of": style_of}
    tools |= {"anchor_of": anchor_of, "title_of": title_of, "slug_of": slug_of}
    html = template.render(page=page, css=Path(__file__).with_name("page.css").read_text(), **tools)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, html.encode(errors="replace"))
    console = Console(highlight=False, markup=False)
    if page.sentence:
        console.print(f"\n{page.sentence}\n")
    for table in [table for section in (page, *page.parts) for table in section.tables][:1]:
        console.print(_grid(table))
    console.print(f"the page is {path}", soft_wrap=True)
    return path


def _grid(table: Table) -> Grid:
    """The first columns of a table, for a terminal."""
    grid = Grid(title=Text(table.title), title_justify="left", box=None, pad_edge=False)
    for place, head in enumerate([*table.columns][: table.short]):
        words = Text(head.replace(", ", "\n"))
        grid.add_column(words, "", justify="right" if place else "left", vertical="bottom")
    for row in table.rows():
        pairs = [(c, c.text if "±" in c.small else f"{c.text} {c.small}") for c in row]
        cells = [Text(words, _STYLES.get(cell.mark, "")) for cell, words in pairs]
        grid.add_row(*cells[: table.short])
    return grid
