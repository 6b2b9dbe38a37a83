"""From a folder of runs to a report: read, say, draw, and write all of it."""

from dataclasses import dataclass
from pathlib import Path

from treefold.atomic import storage_errors, write_atomically
from treefold.lab.report.content import Content, read_content
from treefold.lab.report.draw_matplotlib import draw_files
from treefold.lab.report.markdown import report_markdown
from treefold.lab.report.page import page_html

PAGE, TABLE, FIGURES = "report.html", "table.md", "figures"


@dataclass(frozen=True)
class ReportFiles:
    """Where the parts of a report lie."""

    page: Path
    table: Path
    figures: tuple[Path, ...]


def write_report(runs: Path, out: Path) -> ReportFiles:
    """Write `report.html`, `table.md` and `figures/` into `out`, from every record below `runs`.

    The same records give the same bytes. A folder without records is a ValueError.
    """
    return write_content(read_content(runs), out, PAGE, TABLE)


def write_content(content: Content, out: Path, page_name: str, table_name: str) -> ReportFiles:
    """Write a page, the same in Markdown, and `figures/` into `out`."""
    page, table = page_html(content, out), report_markdown(content, out)
    drawn = {
        out / FIGURES / f"{figure.slug}.{kind}": data
        for figure in content.figures
        for kind, data in draw_files(figure).items()
    }
    with storage_errors(out):
        (out / FIGURES if drawn else out).mkdir(parents=True, exist_ok=True)
    # The page last: what it links to is there before it is.
    for path, data in drawn.items():
        write_atomically(path, data)
    write_atomically(out / table_name, table.encode())
    write_atomically(out / page_name, page.encode())
    return ReportFiles(out / page_name, out / table_name, tuple(drawn))
