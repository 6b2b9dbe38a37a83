"""From a folder of runs to one page that needs nothing else, and a table for the terminal."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from treefold.lab.report.draw import CARD, WIDE, draw
from treefold.lab.report.runs import load
from treefold.lab.report.sections import Section, report_page
from treefold.records import write_atomically

HERE = Path(__file__).parent
_STYLES = {"best": "bold", "second": "underline"}


def write_report(runs: Path, out: Path) -> Path:
    """Write `report.html` into `out` from every record below `runs`, and print its table.

    The same records give the same bytes. A folder without records is a ValueError.
    """
    groups, damaged = load(runs)
    return write_page(report_page(groups, damaged, out), out / "report.html")


def write_page(page: Section, path: Path) -> Path:
    """Write a page to a file that loads nothing, then print its first table and its path."""
    options = {"autoescape": True, "trim_blocks": True, "undefined": StrictUndefined}
    template = Environment(loader=FileSystemLoader(HERE), **options).get_template("page.html")
    sizes = {"draw": draw, "wide": WIDE, "card": CARD}
    html = template.render(page=page, css=(HERE / "page.css").read_text(), **sizes)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, html.encode(errors="replace"))
    console = Console(highlight=False)
    if page.sentence:
        console.print(f"\n{page.sentence}\n", markup=False)
    console.print(_grid(page))
    console.print(f"the page is {path}", soft_wrap=True, markup=False)
    return path


def _grid(page: Section) -> Grid | str:
    """The first table of a page, for a terminal."""
    tables = [table for section in (page, *page.parts) for table in section.tables if table]
    if not tables:
        return page.about
    shown = tables[0].columns[: tables[0].short]
    grid = Grid(title=tables[0].title, title_justify="left", box=None, pad_edge=False)
    for column in shown:
        head = f"{column.over}\n{column.head}" if any(each.over for each in shown) else column.head
        grid.add_column(head, justify="right" if column.number else "left", overflow="fold")
    for row in tables[0].rows():
        grid.add_row(
            *(
                Text(c.text if "±" in c.small else f"{c.text} {c.small}", _STYLES.get(c.mark, ""))
                for c in row[: len(shown)]
            )
        )
    return grid
