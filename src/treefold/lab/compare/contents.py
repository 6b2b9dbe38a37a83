"""The contents of a comparison's page: a summary with advice, a table, and figures."""

from collections.abc import Sequence

from treefold.lab.compare.advice import advice
from treefold.lab.compare.results import Result, Results, facts_of
from treefold.lab.report import (
    Axis,
    Column,
    Figure,
    Group,
    Line,
    Link,
    Paragraph,
    Spread,
    Style,
    Table,
    Text,
    counted,
    curve,
    log_axis,
    machines_of,
    mean_and_deviation,
    note_of,
    over_epochs,
    range_of,
    slug_of,
    sources_of,
)

BETTER = {"accuracy": "higher is better", "roc-auc": "higher is better", "mae": "lower is better"}


def summary(groups: Sequence[Group], results: Results | None) -> list[Paragraph]:
    """The advice, and a paragraph about data, network and training."""
    recipe = groups[0].runs[0].record.recipe
    facts, model, training = facts_of(recipe), recipe["model"], recipe["training"]
    of = {"graph": "graphs", "node": "nodes"}[facts["level"]]
    asked = f"{facts['num_outputs']} classes" if facts["kind"] == "classification" else "numbers"
    answers = ", ".join(f"{count:,} {name}" for name, count in facts["answers"].items())
    about: Text = (
        f"{facts['name']}: {facts['kind']} of {of} ({asked}), "
        f"{counted(facts['num_graphs'], 'graph')} with {facts['num_nodes']:,} nodes and "
        f"{facts['num_edges']:,} edges; answers: {answers}. "
        f"{' '.join(facts['notes'])} Every aggregator sits in the same small GNN "
        f"({counted(model['layers'], 'layer')} of {model['channels']} channels) and is trained for "
        f"{groups[0].runs[0].record.preset} with Adam at learning rate "
        f"{training['learning_rate']:g}. The epoch with the best validation is scored on the test.",
    )
    if results is None:
        return [
            Paragraph(("No run is finished: there is nothing to report yet.",)),
            Paragraph(about),
        ]
    return [*advice(results), Paragraph(about)]


def table(results: Results | None) -> Table | None:
    """A row per aggregator, best validation first."""
    if results is None:
        return None
    laws = sorted({law for row in results.rows for law in row.laws})
    heads = (
        *("aggregator", "kind", "validation", "test", "train", "seconds per epoch"),
        *("peak memory of a step", "parameters"),
    )
    columns = [Column(head, number=place > 1) for place, head in enumerate(heads)]
    columns += [Column(law, over="law violations, relative", number=True) for law in laws]
    metric = f"{results.metric} ({BETTER[results.metric]})"
    constant = f"; a constant answer has {results.constant.mean:.3f}" if results.constant else ""
    return Table(
        "Scores, time, memory and laws",
        f"{metric}: mean ± deviation over seeds, best validation first{constant}. Time is of "
        f"training alone, on {machines_of([row.group for row in results.rows])}; memory is that of "
        "all tensors alive at once in a training step on the largest graphs.",
        tuple(columns),
        tuple(_row(row, laws) for row in results.ranked),
    )


def _row(row: Result, laws: Sequence[str]) -> tuple[Text, ...]:
    link = Link(row.label, row.group.anchor)
    parameters = row.group.metric("num_parameters")
    return (
        (link,),
        (row.style.kind,),
        *(_cell(spread) for spread in (row.val, row.test, row.train)),
        (f"{row.epoch_seconds.mean:.3g}",),
        (f"{row.memory.mean / 1e6:,.1f} MB",),
        (f"{parameters.mean:,.0f}",) if parameters else (),
        *((f"{row.laws[law].mean:.2g}",) if law in row.laws else () for law in laws),
    )


def _cell(spread: Spread) -> Text:
    return (mean_and_deviation(spread), *range_of(spread))


def figures(results: Results, groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    """Test scores against time, and validation over training."""
    shown = [row.group for row in results.ranked]
    return [_against_time(results, shown, styles), *_curves(results, shown, styles)]


def _against_time(results: Results, groups: Sequence[Group], styles: dict[str, Style]) -> Figure:
    lines = tuple(_point(row) for row in results.ranked)
    seconds = [row.epoch_seconds.mean for row in results.rows]
    return Figure(
        slug_of("test against time", groups[0].experiment),
        f"Test {results.metric} against time",
        note_of(groups, styles),
        f"{results.metric}: {BETTER[results.metric]}. Bars are the range over seeds.",
        _time_axis(seconds),
        Axis(f"test {results.metric}"),
        lines,
        sources=sources_of(groups, styles),
    )


def _time_axis(seconds: Sequence[float]) -> Axis:
    # The axis fits its lines by y: lay the seconds there.
    return log_axis("seconds per epoch", [Line("", (0,) * len(seconds), tuple(seconds), "#000000")])


def _point(row: Result) -> Line:
    return Line(
        row.label,
        (float(f"{row.epoch_seconds.mean:.4g}"),),
        (row.test.mean,),
        row.style.colour,
        (row.test.low,),
        (row.test.high,),
        mode="markers",
    )


def _curves(results: Results, groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    column = f"validation_{results.metric}"
    drawn = [
        curve(
            styles[group.row].label,
            over_epochs(group.finished, column),
            styles[group.row].colour,
            styles[group.row].dash,
        )
        for group in groups
    ]
    lines = tuple(line for line in drawn if line)
    if not lines or max(len(line.x) for line in lines) < 2:
        return []
    return [
        Figure(
            slug_of("validation over training", groups[0].experiment),
            f"Validation {results.metric} over training",
            note_of(groups, styles),
            "The band is the range over seeds.",
            Axis("epoch"),
            Axis(results.metric),
            lines,
            sources=sources_of(groups, styles),
        )
    ]
