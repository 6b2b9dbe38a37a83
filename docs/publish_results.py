"""The results page, and the tables of other pages, made from the records in `results/`.

    python docs/publish_results.py

writes docs/results/ as `treefold report` does, and fills what stands in README and docs between
`<!-- made: NAME -->` and `<!-- end -->`.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from treefold.records import write_atomically
from treefold.report import write_report
from treefold.report.content import read_content
from treefold.report.groups import Group

ROOT = Path(__file__).parent.parent
RESULTS, REPORT = ROOT / "results", ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
MADE = re.compile(r"(<!-- made: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)

Address = Callable[[Group], str]


def accuracy_table(groups: Sequence[Group], address: Address) -> list[str]:
    """Our mean accuracies beside the paper's, a row for each aggregator."""
    metrics = {"1..16": "accuracy@1-16", "32": "accuracy@32", "200": "accuracy@200"}
    heads = [head for size in metrics for head in (size, "paper")]
    lines = [f"| aggregator | {' | '.join(heads)} | seeds |", "|---" * (len(heads) + 2) + "|"]
    for group in groups:
        cells = [_pair(group, metric) for metric in metrics.values()]
        name = f"[`{group.row}`]({address(group)})"
        lines.append(f"| {name} | {' | '.join(cells)} | {len(group.finished)} |")
    return lines


def _pair(group: Group, metric: str) -> str:
    ours, paper = group.metric(metric), group.reported(metric)
    assert ours is not None, f"{group.row} has no {metric}"
    return f"{ours.mean:.3f} | {paper.value:.3f}" if paper else f"{ours.mean:.3f} | –"


def seconds_table(groups: Sequence[Group], address: Address) -> list[str]:
    """Seconds per epoch by the size of sets."""
    sizes = sorted({size for group in groups for size in group.seconds_by_size()})
    heads = " | ".join(f"sets of {size}" for size in sizes)
    lines = [f"| aggregator | {heads} |", "|---" * (len(sizes) + 1) + "|"]
    for group in groups:
        seconds = group.seconds_by_size()
        cells = " | ".join(f"{seconds[size].mean:.0f}" for size in sizes)
        lines.append(f"| [`{group.row}`]({address(group)}) | {cells} |")
    return lines


TABLES: dict[str, Callable[[Sequence[Group], Address], list[str]]] = {
    "second-minimum": accuracy_table,
    "set-speed": seconds_table,
}


def made(name: str, groups: Sequence[Group], address: Address) -> str:
    """The table called `EXPERIMENT, preset PRESET`, from finished runs."""
    experiment, _, variant = name.partition(", preset ")
    chosen = [g for g in groups if (g.experiment, g.variant) == (experiment, variant)]
    rows = [group for group in chosen if group.finished]
    if experiment not in TABLES or not rows:
        raise ValueError(f"no table {name!r}: results/ has no such finished runs")
    return "\n".join(TABLES[experiment](rows, address))


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
