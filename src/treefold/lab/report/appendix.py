"""The records themselves, inside the page and as links, so that every number has an address."""

import dataclasses
import html
import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from treefold.lab.report.groups import Group
from treefold.lab.report.runs import Run
from treefold.lab.report.text import escape_markdown
from treefold.lab.runs import RECORD_FILE


def records_html(groups: Sequence[Group], out: Path, budget: int) -> str:
    """Every record under its group's anchor, embedded where it still fits into `budget` bytes."""
    left_out = {run.folder: _details(run, out, None) for group in groups for run in group.runs}
    heads = [_head(group) for group in groups]
    budget -= sum(len(piece.encode()) + 1 for piece in (*heads, *left_out.values()))
    pieces = []
    for group, head in zip(groups, heads, strict=True):
        pieces.append(head)
        for run in group.runs:
            details = _details(run, out, html.escape(_json(run), quote=False))
            more = len(details.encode()) - len(left_out[run.folder].encode())
            pieces.append(details if more <= budget else left_out[run.folder])
            budget -= more if more <= budget else 0
    return "\n".join(pieces)


def _head(group: Group) -> str:
    name = html.escape(f"{group.experiment}/{group.row}, preset {group.variant}")
    return f'<h4 id="{group.anchor}">{name}</h4>'


def records_markdown(groups: Sequence[Group], out: Path) -> str:
    """The list that the numbers of the Markdown tables link to."""
    lines = ["## Records", ""]
    for group in groups:
        name = escape_markdown(f"{group.experiment}/{group.row}, preset {group.variant}")
        links = [f"[{escape_markdown(_title(run))}]({record_link(run, out)})" for run in group.runs]
        lines.append(f'- <a id="{group.anchor}"></a>{name}: {", ".join(links)}')
    return "\n".join(lines) + "\n"


def record_link(run: Run, out: Path) -> str:
    """The address of a run's record as seen from the page."""
    record = (run.folder / RECORD_FILE).resolve()
    try:
        return quote(Path(os.path.relpath(record, out.resolve())).as_posix(), safe="/,=+")
    except ValueError:  # on another drive
        return record.as_uri()


def _details(run: Run, out: Path, content: str | None) -> str:
    link = html.escape(record_link(run, out))
    commit = html.escape(str(run.record.commit)[:20])
    body = f"<pre>{content}</pre>" if content else "<p>Left out to keep this page small.</p>"
    return (
        f"<details><summary>{html.escape(_title(run))}, {run.record.epochs} epochs, "
        f"{run.record.seconds:,.0f} s, commit {commit}</summary>"
        f'<p><a href="{link}">{html.escape(run.place)}/{RECORD_FILE}</a></p>{body}</details>'
    )


def _title(run: Run) -> str:
    return f"seed {run.record.seed}, {run.record.status}"


def _json(run: Run) -> str:
    return json.dumps(dataclasses.asdict(run.record), indent=1, ensure_ascii=False)
