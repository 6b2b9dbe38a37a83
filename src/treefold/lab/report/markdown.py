"""The report in Markdown: the summary, the tables, and the list of records they link to."""

from pathlib import Path

from treefold.lab.report.appendix import records_markdown
from treefold.lab.report.content import Content
from treefold.lab.report.runs import Damaged
from treefold.lab.report.summary import Paragraph
from treefold.lab.report.table import table_markdown
from treefold.lab.report.text import as_markdown, escape_markdown


def report_markdown(content: Content, out: Path) -> str:
    """The whole file, whose links lead from `out` to the records."""
    parts = [
        f"# {escape_markdown(content.title)}\n",
        *map(_paragraph, content.summary),
        *map(table_markdown, content.tables),
    ]
    if content.damaged:
        items = "".join(map(_damaged, content.damaged))
        parts.append(f"## Files that could not be read\n\n{items}")
    if content.groups:
        parts.append(records_markdown(content.groups, out))
    return "\n".join(parts)


def _paragraph(paragraph: Paragraph) -> str:
    points = "".join(f"- {as_markdown(point)}\n" for point in paragraph.points)
    return f"{as_markdown(paragraph.text)}\n" + (f"\n{points}" if points else "")


def _damaged(damaged: Damaged) -> str:
    return f"- {escape_markdown(f'{damaged.place}: {damaged.reason}')}\n"
