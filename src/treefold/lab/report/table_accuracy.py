"""Our scores beside the paper's, with the difference: accuracies, areas, and errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from treefold.lab.report.figure_notes import effort_of
from treefold.lab.report.groups import Group
from treefold.lab.report.hardware import alike
from treefold.lab.report.styles import Style
from treefold.lab.report.table import Column, Table
from treefold.lab.report.table_notes import note_cells, note_columns, notes_of
from treefold.lab.report.text import (
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
SPLITS = {"test": "test, best epoch on validation", "test-last": "test, last epoch"}
"""Of real graphs: the rest of a score's name, in words."""


def in_words(metric: str) -> str:
    """`sizes 1–16` for accuracy@1-16, `size 32` for accuracy@32, `balanced, size 32`, `on val`."""
    size = metric.partition("@")[2]
    if size in SPLITS:
        return SPLITS[size]
    if size.isalpha():  # what somebody's own graphs are split into
        return f"on {size}"
    if size.startswith(BALANCED):
        return f"balanced, size {size.removeprefix(BALANCED)}"
    return f"sizes {size.replace('-', '–')}" if "-" in size else f"size {size}"


@dataclass(frozen=True)
class Measure:
    """Scores that go into a table together: what their names begin with, and how they are shown."""

    prefix: str
    title: str
    head: Callable[[str], str]
    digits: int = 3
    highest: bool = True
    order: tuple[str, ...] = ()
    """Which come first, by the rest of their names."""

    @property
    def best(self) -> str:
        """What the best mean is."""
        return "highest" if self.highest else "lowest"


ACCURACY = Measure(PREFIX, "Accuracy", in_words, order=tuple(SPLITS))
ERRORS = Measure(
    "log10_mse@",
    "log10 of the mean squared error",
    lambda metric: metric.removeprefix("log10_mse@").replace("-", " "),
    digits=2,
    highest=False,
    order=(
        *("average", "sssp", "eccentricity", "laplacian"),
        *("connected", "diameter", "spectral-radius"),
    ),
)
ABSOLUTE = Measure("mae@", "Mean absolute error", in_words, highest=False, order=tuple(SPLITS))
AREA = Measure("roc-auc@", "Area under the ROC curve", in_words, order=tuple(SPLITS))
MEASURES = (ACCURACY, ERRORS, ABSOLUTE, AREA)


def score_table(
    groups: Sequence[Group], styles: dict[str, Style], measure: Measure = ACCURACY
) -> Table | None:
    """A row for each finished group of one experiment, whatever its preset."""
    shown = [group for group in groups if group.finished and metrics_of([group], measure)]
    if not shown:
        return None
    metrics = metrics_of(shown, measure)
    published = [name for name in metrics if any(group.reported(name) for group in shown)]
    notes, timed = notes_of(shown), len(alike(shown)) == 1
    columns = [
        Column("aggregator"),
        Column("preset"),
        *(column for name in metrics for column in _columns(measure.head(name), name in published)),
        Column("parameters", number=True),
        *([Column("s/epoch", number=True)] if timed else []),
        *note_columns(notes),
    ]
    rows = []
    for _, members in groupby(shown, key=lambda group: group.variant):
        comparable = list(members)
        rivals = [group for group in comparable if styles[group.row].kind != "exact"]
        best = {name: _best_mean(rivals, name, measure) for name in metrics}
        for group in comparable:
            row = _facts(group, styles[group.row])
            for name in metrics:
                row += score_cells(group, name, best[name], name in published, measure.digits)
            row += [_plain(group, "num_parameters", "{:,.0f}")]
            row += [_plain(group, "seconds_per_epoch", "{:.1f}")] if timed else []
            rows.append((*row, *note_cells(group, notes)))
    return Table(
        f"{measure.title}: {shown[0].experiment}",
        _caption(shown, published, measure),
        tuple(columns),
        tuple(rows),
        tuple(notes),
    )


def metrics_of(groups: Sequence[Group], measure: Measure) -> list[str]:
    """The names of a measure's scores in the records, in the order of its table."""
    found = {name for g in groups for run in g.finished for name in run.record.metrics}
    ends = sorted(n.removeprefix(measure.prefix) for n in found if n.startswith(measure.prefix))
    known = [end for end in measure.order if end in ends]
    others = sorted((end for end in ends if end not in known), key=_first_number)
    return [measure.prefix + end for end in (*known, *others)]


def _best_mean(groups: Sequence[Group], metric: str, measure: Measure) -> float | None:
    means = [s.mean for group in groups if (s := group.metric(metric))]
    best = max if measure.highest else min
    return best(means) if len(means) > 1 else None


def _columns(words: str, published: bool) -> list[Column]:
    heads = ["ours", "paper", "Δ"] if published else ["ours"]
    return [Column(head, words, number=True) for head in heads]


def _facts(group: Group, style: Style) -> list[Text]:
    return [
        (style.label, Small(style.kind)),
        (Link(group.variant, group.anchor), Small(effort_of(group))),
    ]


def score_cells(
    group: Group, metric: str, best: float | None, published: bool, digits: int
) -> list[Text]:
    """Our score, and where it is `published` the paper's and the difference; the best is bold."""
    ours, theirs = group.metric(metric), group.reported(metric)
    if ours is None:
        own: Text = ()
    else:
        strong = best is not None and f"{ours.mean:.{digits}f}" == f"{best:.{digits}f}"
        words = mean_and_deviation(ours, digits)
        own = (Link(words, group.anchor, strong), *range_of(ours, digits))
    if not published:
        return [own]
    if theirs is None:
        return [own, (), ()]
    paper = with_spread(theirs.value, theirs.spread, digits)
    if ours is None:
        return [own, paper, ()]
    return [own, paper, (Link(signed(ours.mean - theirs.value, digits), group.anchor),)]


def _plain(group: Group, metric: str, form: str) -> Text:
    found = group.metric(metric)
    return (Link(form.format(found.mean), group.anchor),) if found else ()


def _caption(groups: Sequence[Group], published: Sequence[str], measure: Measure) -> str:
    sentences = []
    if any(len(group.finished) > 1 for group in groups):
        sentences.append("Mean ± standard deviation over seeds (lowest to highest).")
    sentences.append(f"Bold: the {measure.best} mean of its preset.")
    sources = {
        entry.source for group in groups for name in published if (entry := group.reported(name))
    }
    if sources:
        sentences.append(f"The paper's values: {listed(sorted(sources))}; Δ: ours − paper.")
    if len(alike(groups)) > 1:
        sentences.append("No seconds per epoch: not all rows were trained on one machine, alike.")
    return " ".join(sentences)


def _first_number(size: str) -> tuple[int, str]:
    first = size.removeprefix(BALANCED).partition("-")[0]
    number = int(first) if first.isdecimal() else 10**9
    return number + 10**6 * size.startswith(BALANCED), size
