"""The results page, and the tables of other pages, made from the records in `results/`.

    python docs/publish_results.py

writes docs/results/ as `treefold report` does, and fills what stands in README and docs between
`<!-- made: NAME -->` and `<!-- end -->`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from made_tables import TABLES, Address

from treefold.atomic import write_atomically
from treefold.lab.report import write_report
from treefold.lab.report.content import read_content
from treefold.lab.report.groups import Group

ROOT = Path(__file__).parent.parent
RESULTS, REPORT = ROOT / "results", ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "generalising.md")
MADE = re.compile(r"(<!-- made: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def made(name: str, groups: Sequence[Group], address: Address) -> str:
    """The table called `NAME, preset PRESET`, from finished runs; `*` stands for anything."""
    table_name, _, variant = name.partition(", preset ")
    if table_name not in TABLES:
        raise ValueError(f"no table {name!r}; there are {', '.join(TABLES)}")
    table = TABLES[table_name]
    chosen = [g for g in groups if g.experiment in table.experiments and g.finished]
    rows = [group for group in chosen if fnmatchcase(group.variant, variant)]
    if not rows:
        raise ValueError(f"no table {name!r}: results/ has no such finished runs")
    return "\n".join(table.lines(rows, address))


def filled(page: Path, groups: Sequence[Group]) -> str:
    """The page's text with every made table as the records have it now."""

    def address(group: Group) -> str:
        if page.name != "README.md":
            return f"results/table.md#{group.anchor}"
        folder = group.finished[0].folder
        return str((folder.parent if folder.name.startswith("seed-") else folder).relative_to(ROOT))

    return MADE.sub(lambda m: f"{m[1]}{made(m[2], groups, address)}\n{m[3]}", page.read_text())


def publish() -> None:
    """Write the report, then the tables that pages quote from it."""
    write_report(RESULTS, REPORT)
    groups = read_content(RESULTS).groups
    for page in PAGES:
        write_atomically(page, filled(page, groups).encode())


if __name__ == "__main__":
    publish()
