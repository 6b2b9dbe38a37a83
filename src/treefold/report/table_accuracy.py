"""Our accuracies beside the paper's, with the difference."""

from collections.abc import Sequence
from itertools import groupby

from treefold.report.figure_notes import effort_of
from treefold.report.groups import Group
from treefold.report.styles import Style
from treefold.report.table import Column, Table
from treefold.report.table_notes import note_cells, note_columns, notes_of
from treefold.report.text import (
    Link,
    Small,
    Text,
    listed,
    mean_and_deviation,
    range_of,
    signed,
    with_spread,
)

PREFIX = "accuracy@"
BALANCED = "balanced-"


def accuracy_table(groups: Sequence[Group], styles: dict[str, Style]) -> Table | None:
    """A row for each finished group of one experiment, whatever its preset."""
    shown = [group for group in groups if group.finished and accuracy_metrics([group])]
    if not shown:
        return None
    metrics = accuracy_metrics(shown)
    published = [name for name in metrics if any(group.reported(name) for group in shown)]
    notes = notes_of(shown)
    columns = [
        Column("aggregator"),
        Column("preset"),
        *(column for name in metrics for column in _columns(name, name in published)),
        Column("parameters", number=True),
        Column("s/epoch", number=True),
        *note_columns(notes),
    ]
    rows = []
    for _, members in groupby(shown, key=lambda group: group.variant):
        comparable = list(members)
        rivals = [group for group in comparable if styles[group.row].kind != "exact"]
        best = {name: _best_mean(rivals, name) for name in metrics}
        for group in comparable:
            row = _facts(group, styles[group.row])
            for name in metrics:
                row += _cells(group, name, best[name], name in published)
            row += [_plain(group, "num_parameters", "{:,.0f}"), _seconds(group)]
            rows.append((*row, *note_cells(group, notes)))
    return Table(
        f"Accuracy: {shown[0].experiment}",
        _caption(shown, published),
        tuple(columns),
        tuple(rows),
        tuple(notes),
    )


def accuracy_metrics(groups: Sequence[Group]) -> list[str]:
    """The names of the accuracies in the records, by set size."""
    found = {name for g in groups for run in g.finished for name in run.record.metrics}
    sizes = sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))
    ordered = sorted(sizes, key=lambda size: _first_number(size))
    return [PREFIX + size for size in ordered]


def in_words(metric: str) -> str:
    """`sizes 1–16` for accuracy@1-16, `size 32` for accuracy@32, `balanced, size 32`."""
    size = metric.removeprefix(PREFIX)
    if size.startswith(BALANCED):
        return f"balanced, size {size.removeprefix(BALANCED)}"
    return f"sizes {size.replace('-', '–')}" if "-" in size else f"size {size}"


def _best_mean(groups: Sequence[Group], metric: str) -> float | None:
    means = [s.mean for group in groups if (s := group.metric(metric))]
    return max(means) if len(means) > 1 else None


def _columns(metric: str, published: bool) -> list[Column]:
    heads = ["ours", "paper", "Δ"] if published else ["ours"]
    return [Column(head, in_words(metric), number=True) for head in heads]


def _facts(group: Group, style: Style) -> list[Text]:
    return [
        (style.label, Small(style.kind)),
        (Link(group.variant, group.anchor), Small(effort_of(group))),
    ]


def _cells(group: Group, metric: str, best: float | None, published: bool) -> list[Text]:
    ours, theirs = group.metric(metric), group.reported(metric)
    if ours is None:
        own: Text = ()
    else:
        strong = best is not None and f"{ours.mean:.3f}" == f"{best:.3f}"
        own = (Link(mean_and_deviation(ours), group.anchor, strong), *range_of(ours))
    if not published:
        return [own]
    if theirs is None:
        return [own, (), ()]
    paper = with_spread(theirs.value, theirs.spread)
    if ours is None:
        return [own, paper, ()]
    return [own, paper, (Link(signed(ours.mean - theirs.value), group.anchor),)]


def _plain(group: Group, metric: str, form: str) -> Text:
    found = group.metric(metric)
    return (Link(form.format(found.mean), group.anchor),) if found else ()


def _seconds(group: Group) -> Text:
    return _plain(group, "seconds_per_epoch", "{:.1f}")


def _caption(groups: Sequence[Group], published: Sequence[str]) -> str:
    sentences = []
    if any(len(group.finished) > 1 for group in groups):
        sentences.append("Mean ± standard deviation over seeds (lowest to highest).")
    sentences.append("Bold: the highest mean of its preset.")
    sources = {
        entry.source for group in groups for name in published if (entry := group.reported(name))
    }
    if sources:
        sentences.append(f"The paper's values: {listed(sorted(sources))}; Δ: ours − paper.")
    return " ".join(sentences)


def _first_number(size: str) -> tuple[int, str]:
    first = size.removeprefix(BALANCED).partition("-")[0]
    number = int(first) if first.isdecimal() else 10**9
    return number + 10**6 * size.startswith(BALANCED), size
