"""The results page, and tables and sentences of other pages, made from records in `results/`.

    python docs/publish_results.py

writes docs/results/ as `treefold report` does, and fills what stands in README and docs between
`<!-- made: NAME -->` and `<!-- end -->`.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from made_sentences import SENTENCES
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
    """What is called `NAME, preset PRESET`, from finished runs; `*` stands for anything."""
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
            return f"results/table.md#{group.anchor}"
        folder = group.finished[0].folder
        return str((folder.parent if folder.name.startswith("seed-") else folder).relative_to(ROOT))

    return MADE.sub(lambda m: f"{m[1]}{made(m[2], groups, address)}\n{m[3]}", page.read_text())


def publish() -> None:
    """Write the report, then what pages quote from its records."""
    write_report(RESULTS, REPORT)
    groups = read_content(RESULTS).groups
    for page in PAGES:
        write_atomically(page, filled(page, groups).encode())


if __name__ == "__main__":
    publish()
