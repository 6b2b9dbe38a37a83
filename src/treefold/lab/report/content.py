"""All that a report says about a folder of runs, before it is written as HTML or Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from treefold.lab.report.figure import Figure, with_own_slugs
from treefold.lab.report.figure_accuracy import accuracy_figure
from treefold.lab.report.figure_balanced import balanced_figure
from treefold.lab.report.figure_ratio import ratio_figures
from treefold.lab.report.figure_speed import speed_figure
from treefold.lab.report.figure_sweep import sweep_figure
from treefold.lab.report.figure_training import curve_figures, law_figures
from treefold.lab.report.groups import Group, group_runs, sections
from treefold.lab.report.hardware import alike
from treefold.lab.report.runs import Damaged, load_runs
from treefold.lab.report.styles import Style, style_groups
from treefold.lab.report.summary import Paragraph, summarize
from treefold.lab.report.table import Table
from treefold.lab.report.table_accuracy import MEASURES, score_table
from treefold.lab.report.table_real_graphs import real_graphs_table
from treefold.lab.report.table_speed import speed_table
from treefold.lab.report.table_unfinished import unfinished_table
from treefold.lab.report.text import listed


@dataclass(frozen=True)
class Content:
    """The parts of a report in reading order; a part without data is empty."""

    title: str
    summary: tuple[Paragraph, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    damaged: tuple[Damaged, ...]
    groups: tuple[Group, ...]


def read_content(runs: Path) -> Content:
    """What the report on a folder of runs says."""
    loaded = load_runs(runs)
    groups = group_runs(loaded.runs)
    styles = style_groups(groups)
    experiments = list(dict.fromkeys(group.experiment for group in groups))
    return Content(
        f"treefold: {listed(experiments)}" if experiments else "treefold: no readable records",
        tuple(summarize(groups, styles, len(loaded.damaged))),
        tuple(_tables(groups, styles)),
        tuple(with_own_slugs(_figures(groups, styles))),
        loaded.damaged,
        tuple(groups),
    )


def _tables(groups: Sequence[Group], styles: dict[str, Style]) -> list[Table]:
    tables: list[Table | None] = [real_graphs_table(groups, styles)]
    for _, members in groupby(groups, key=lambda group: group.experiment):
        rows = list(members)
        tables += [score_table(rows, styles, measure) for measure in MEASURES]
        tables += [speed_table(part, styles) for part in alike(rows)]
    return [table for table in [*tables, unfinished_table(groups, styles)] if table]


def _figures(groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    compared = sections(groups).values()
    results = [
        *(accuracy_figure(members, styles) for members in compared),
        *(balanced_figure(members, styles) for members in compared),
        *(figure for members in compared for figure in ratio_figures(members, styles)),
        *(sweep_figure(members, groups, styles) for members in compared),
        *(speed_figure(part, styles) for members in compared for part in alike(members)),
    ]
    laws = [figure for members in compared for figure in law_figures(members, styles)]
    curves = [figure for members in compared for figure in curve_figures(members, styles)]
    return [figure for figure in [*results, *laws, *curves] if figure]
