"""The results of the documentation, made from the records in `results/`.

    python docs/publish_results.py

writes docs/results/ (the page of `treefold report`, its tables in Markdown, some of its figures),
and fills what stands in README and docs between `<!-- made: NAME -->` and `<!-- end -->`.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from made_sentences import SENTENCES
from made_tables import TABLES, Address

from treefold.atomic import write_atomically
from treefold.lab.report import figures, write_report
from treefold.lab.report.draw import WIDE, draw
from treefold.lab.report.names import anchor_of, in_order
from treefold.lab.report.sections import Section, report_page
from treefold.lab.report.tables import Cell, Table
from treefold.lab.runs import Group, load_groups

ROOT = Path(__file__).parent.parent
RESULTS, REPORT = ROOT / "results", ROOT / "docs" / "results"
MADE_IN = ("results", "generalising", "finite", "which-aggregator")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in MADE_IN))
MADE = re.compile(r"(<!-- made: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
ALONE = (  # in a file, a figure brings its colours itself
    "<style>svg{color:#333;--faint:#ddd}text{font-family:system-ui,sans-serif!important}"
    "@media(prefers-color-scheme:dark){svg{color:#ccc;--faint:#444}}</style>"
)


def drawn(groups: Sequence[Group]) -> dict[str, str]:
    """The figures that pages show, by their file names."""
    found = {}
    kinds = [
        ("second-minimum", "standard", figures.accuracy),
        ("second-minimum", "standard", balanced),
        ("generalisation", "standard", figures.accuracy),
        ("generalisation", "standard", balanced),
        ("second-minimum-lambda", "standard", figures.accuracy),
        ("multi-task", "quick", figures.ratio),
        ("multi-task", "quick, training.epochs=80", figures.ratio),
    ]
    for experiment, variant, make in kinds:
        rows = [g for g in groups if (g.experiment, g.variant) == (experiment, variant)]
        if figure := make(rows):
            svg = draw(figure, WIDE)
            found[f"{figure.slug}.svg"] = svg.replace(">", f">{ALONE}", 1) + "\n"
    return found


def balanced(groups: Sequence[Group]) -> figures.Figure | None:
    """Accuracy where every answer is as likely as the others."""
    return figures.accuracy(groups, "balanced_accuracy")


def markdown(groups: Sequence[Group], damaged: Sequence[str]) -> str:
    """The tables of the report, and the records that their rows lead to."""
    page = report_page(groups, damaged)
    lines = [f"# {page.title}", "", page.about]
    for section in page.parts:
        lines += ["", f"## {section.title}", "", section.about, "", section.sentence]
        for title, table in tables_of(section):
            lines += ["", *([f"### {title}", ""] if title else []), *table_lines(table)]
    lines += ["", "## Records", ""]
    for group in groups:
        links = [
            f"[seed {run.record.seed}, {run.record.status}]"
            f"({os.path.relpath(run.folder, REPORT)}/record.json)"
            for run in group.runs
        ]
        name = plain(f"{group.experiment}/{group.row}, preset {group.variant}")
        lines.append(f'- <a id="{anchor_of(group)}"></a>{name}: {", ".join(links)}')
    return "\n".join(lines) + "\n"


def tables_of(section: Section, title: str = "") -> Iterator[tuple[str, Table]]:
    """The tables of a section, then those of its parts with their titles."""
    for table in section.tables:
        yield title, table
    for part in section.shown:
        yield from tables_of(part, f"{title}, {part.title}" if title else part.title)


def table_lines(table: Table) -> Iterator[str]:
    """A table in Markdown, with what it says under it."""
    yield f"| {' | '.join(table.columns)} |"
    yield "|---" * len(table.columns) + "|"
    for row in table.rows():
        yield f"| {' | '.join(map(cell, row))} |"
    yield from ("", table.note)


def cell(found: Cell) -> str:
    """A cell on one line: bold where it is best, a link where it leads somewhere."""
    words = f"**{plain(found.text)}**" if found.mark == "best" else plain(found.text)
    words = f"[{words}]({found.link})" if found.link else words
    return f"{words} {plain(found.small)}".strip()


def plain(words: str) -> str:
    """The words as they are: no emphasis, link, or cell border comes of them."""
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", words)


def made(name: str, groups: Sequence[Group], address: Address) -> str:
    """The table or sentence `NAME, preset PRESET`, from finished runs; `*` stands for anything."""
    kind, _, variant = name.partition(", preset ")
    known = {**TABLES, **SENTENCES}
    if kind not in known:
        raise ValueError(f"nothing is called {name!r}; there are {', '.join(known)}")
    chosen = [g for g in groups if g.experiment in known[kind].experiments and g.finished]
    rows = [group for group in chosen if fnmatchcase(group.variant, variant)]
    if not rows:
        raise ValueError(f"nothing for {name!r}: results/ has no such finished runs")
    table = TABLES.get(kind)
    return "\n".join(table.lines(rows, address) if table else SENTENCES[kind].lines(rows))


def filled(page: Path, groups: Sequence[Group]) -> str:
    """The page's text with all that is made as the records have it now."""

    def address(group: Group) -> str:
        if page.name != "README.md":
            return f"results/table.md#{anchor_of(group)}"
        folder = group.finished[0].folder
        return str((folder.parent if folder.name.startswith("seed-") else folder).relative_to(ROOT))

    return MADE.sub(lambda m: f"{m[1]}{made(m[2], groups, address)}\n{m[3]}", page.read_text())


def publish() -> None:
    """Write the report, its tables and figures, then what pages quote from its records."""
    write_report(RESULTS, REPORT)
    groups, damaged = load_groups(RESULTS)
    groups = in_order(groups)
    write_atomically(REPORT / "table.md", markdown(groups, damaged).encode())
    (REPORT / "figures").mkdir(exist_ok=True)
    for name, svg in drawn(groups).items():
        write_atomically(REPORT / "figures" / name, svg.encode())
    for page in PAGES:
        write_atomically(page, filled(page, groups).encode())


if __name__ == "__main__":
    publish()
