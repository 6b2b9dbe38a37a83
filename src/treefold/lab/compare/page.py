"""The page of a comparison, and the same in Markdown, from the records of its runs."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from treefold.lab.compare.contents import figures, summary, table
from treefold.lab.compare.results import facts_of, read_results
from treefold.lab.report import (
    Content,
    Group,
    ReportFiles,
    group_runs,
    load_runs,
    style_groups,
    unfinished_table,
    write_content,
)

PAGE, MARKDOWN = "comparison.html", "comparison.md"


def write_page(out: Path) -> ReportFiles:
    """Write `comparison.html`, `comparison.md` and `figures/` into `out`, from its records."""
    loaded = load_runs(out)
    groups = _compared(group_runs(loaded.runs))
    styles = style_groups(groups)
    results = read_results(groups, styles)
    unfinished = unfinished_table(groups, styles)
    content = Content(
        f"treefold: aggregators compared on {groups[0].experiment}",
        tuple(summary(groups, results)),
        tuple(found for found in (table(results), unfinished) if found),
        tuple(figures(results, groups, styles)) if results else (),
        loaded.damaged,
        tuple(groups),
    )
    return write_content(content, out, PAGE, MARKDOWN)


def _compared(groups: Sequence[Group]) -> list[Group]:
    """The groups of the comparison; runs on other data or with another budget do not belong."""
    by_recipe: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        recipe = group.runs[0].record.recipe
        shared = (facts_of(recipe), recipe.get("model"), recipe.get("training"))
        by_recipe[json.dumps(shared, sort_keys=True)].append(group)
    if len(by_recipe) != 1:
        raise ValueError(
            f"the folder holds runs of {len(by_recipe)} comparisons; expected one: give another "
            "--out, or remove what does not belong"
        )
    return next(iter(by_recipe.values()))
