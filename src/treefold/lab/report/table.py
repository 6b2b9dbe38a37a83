"""A table as data, written as HTML for the page and as Markdown for the file beside it."""

import html
from dataclasses import dataclass
from itertools import groupby

from treefold.lab.report.text import MISSING, Text, as_html, as_markdown, escape_markdown

_NOTES = "Notes, where a recipe departs from the published one:"


@dataclass(frozen=True)
class Column:
    """A column's head; neighbours with the same `over` share a head above theirs."""

    head: str
    over: str = ""
    number: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of running text under heads; `notes` are numbered from 1 below."""

    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    notes: tuple[str, ...] = ()


def table_html(table: Table) -> str:
    """The table with its title, caption and notes, as a piece of HTML."""
    rows = "\n".join(f"<tr>{_html_cells(table, row)}</tr>" for row in table.rows)
    return (
        f"<h3>{html.escape(table.title)}</h3>\n<p>{html.escape(table.caption)}</p>\n"
        f'<div class="scroll"><table>\n<thead>{_html_heads(table)}</thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>\n"
        f"{_html_notes(table)}"
    )


def table_markdown(table: Table) -> str:
    """The same in Markdown; heads that span columns are repeated in each."""
    heads = [f"{c.over}: {c.head}" if c.over else c.head for c in table.columns]
    lines = [
        f"## {escape_markdown(table.title)}",
        "",
        escape_markdown(table.caption),
        "",
        f"| {' | '.join(map(escape_markdown, heads))} |",
        f"|{'|'.join('---:' if column.number else '---' for column in table.columns)}|",
        *(f"| {' | '.join(as_markdown(c) or MISSING for c in row)} |" for row in table.rows),
    ]
    if table.notes:
        lines += ["", _NOTES, ""]
        lines += [f"{n}. {escape_markdown(note)}" for n, note in enumerate(table.notes, 1)]
    return "\n".join(lines) + "\n"


def _html_notes(table: Table) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    return f'<p class="notes">{_NOTES}</p><ol class="notes">{notes}</ol>\n' if notes else ""


def _html_heads(table: Table) -> str:
    if not any(column.over for column in table.columns):
        return f"<tr>{''.join(_head(column) for column in table.columns)}</tr>"
    above, below = [], []
    for over, members in groupby(table.columns, key=lambda column: column.over):
        columns = list(members)
        if over:
            above.append(f'<th colspan="{len(columns)}" class="over">{html.escape(over)}</th>')
            below += [_head(column) for column in columns]
        else:
            above += [_head(column, ' rowspan="2"') for column in columns]
    return f"<tr>{''.join(above)}</tr><tr>{''.join(below)}</tr>"


def _head(column: Column, span: str = "") -> str:
    return f"<th{_number(column)}{span}>{html.escape(column.head)}</th>"


def _html_cells(table: Table, row: tuple[Text, ...]) -> str:
    cells = zip(table.columns, row, strict=True)
    return "".join(
        f"<td{_number(column)}>{as_html(cell) or MISSING}</td>" for column, cell in cells
    )


def _number(column: Column) -> str:
    return ' class="number"' if column.number else ""
