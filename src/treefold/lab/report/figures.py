"""The figures of an experiment, from the groups of runs that they compare."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from treefold.lab.experiments import PNA_RATIOS, measure_of
from treefold.lab.report.draw import SPARK, Figure, Line, draw
from treefold.lab.report.names import GREY, slug_of, style_of
from treefold.lab.runs import BY_SIZE, Group, Stat, is_number
from treefold.lab.tasks import best_constant

Groups = Sequence[Group]
ROUNDING = 1e-6  # a law that is violated by less holds by construction


def _lines(groups: Groups, of: Callable[[Group], Any], marker: str = "") -> list[Line]:
    """A line for each group that has points; published ones, marked "D", go without a name."""
    lines = []
    for group in groups:
        if points := of(group):
            label, _, colour, dash = style_of(group)
            places = [*points]
            kept = [*places[: -1 : len(places) // 250 + 1], places[-1]]
            label = "" if marker == "D" else label
            lines.append(Line(label, {x: points[x] for x in kept}, colour, dash, marker))
    return lines


def _figure(groups: Groups, name: str, lines: Sequence[Line], **words: Any) -> Figure | None:
    """A figure whose caption says what bands and diamonds are; None without lines."""
    named = [line for line in lines if line.label]
    if not named:
        return None
    bands = any(each.low < each.high for line in named for each in line.points.values())
    caption = [words.pop("caption", ""), "Bands: the range over runs." * bands]
    caption += ["Diamonds: published."] if len(named) < len(lines) else []
    slug = slug_of(name, groups[0].experiment, groups[0].variant)
    return Figure(slug, caption=" ".join(filter(None, caption)), lines=lines, **words)


def accuracy(groups: Groups, metric: str = "accuracy") -> Figure | None:
    """Accuracy against set size, as in the paper's Figures 1 and 4, or on balanced answers."""
    name, title = "balanced", "Accuracy where all answers are as likely"
    lines = _lines(groups, lambda group: group.by_size(metric))
    if metric == "accuracy" and lines:
        name, title = "accuracy", "Accuracy against set size"
        constant = _constant(groups, max(max(line.points) for line in lines))
        lines = [*constant, *lines, *_published(groups, "accuracy@")]
    words: dict[str, Any] = {"x": "integers in the set", "y": "accuracy", "log": "x"}
    if is_number(largest := groups[0].runs[0].option("task", "max_train_size")):
        words["rule"] = largest, f"largest in training: {largest}"
    return _figure(groups, name, lines, title=title, limits=(-0.02, 1.03), **words)


def _constant(groups: Groups, largest: int) -> list[Line]:
    """The best constant answer, exact at every size, if all have the same task."""
    task, *others = (group.runs[0].record.recipe.get("task") for group in groups)
    if not isinstance(task, dict) or any(other != task for other in others):
        return []
    known = ((n, best_constant(task, n)) for n in range(2, min(largest, 1000) + 1))
    points = {float(n): Stat(c, c, c) for n, c in known if c is not None}
    return [Line("Best constant answer", points, GREY, "dotted")] if points else []


def _published(groups: Groups, prefix: str) -> list[Line]:
    def points(group: Group) -> dict[int, Stat]:
        names = dict.fromkeys(name for run in group.runs for name in run.record.reported)
        sizes = {n.removeprefix(prefix): group.reported(n) for n in names}
        return {int(size): each for size, each in sizes.items() if size.isdecimal() and each}

    return _lines(groups, points, "D")


def speed(groups: Groups) -> Figure | None:
    """Seconds per epoch against set size on one machine, as in the paper's Figure 3."""
    lines = _lines(groups, lambda group: group.by_size(BY_SIZE), "o")
    lines += _published(groups, "seconds_per_epoch@")
    words: dict[str, Any] = {"title": "Seconds per epoch against set size", "log": "xy"}
    words |= {"x": "integers in the set", "y": "seconds per epoch"}
    return _figure(groups, "seconds", lines, **words)


def ratio(groups: Groups) -> Figure | None:
    """Errors on graphs larger than in training, as in the paper's Figure 5."""

    def ours(group: Group) -> dict[float, Stat]:
        found = {split.split("-")[-1]: each for split, each in group.by_key("log10_ratio").items()}
        ends = sorted(int(end) for end in found if end.isdecimal())
        return {end - 2.0: found[str(end)] for end in ends}

    def theirs(group: Group) -> dict[float, Stat]:
        values = PNA_RATIOS.get(group.row, ()) if group.experiment == "multi-task" else ()
        return {22.0 + 5 * k: Stat(y, y, y) for k, y in enumerate(values)}

    if not (lines := _lines(groups, ours, "o")):
        return None
    sizes = sorted({x for line in lines for x in line.points})
    flat = Line("Constant answer", dict.fromkeys(sizes, Stat(0, 0, 0)), GREY, "dotted")
    lines = [flat, *lines, *_lines(groups, theirs, "D")]
    values = [each.mean for line in lines for each in line.points.values()]
    words: dict[str, Any] = {"title": "Error against graph size", "log": "x"}
    words |= {"x": "nodes in the graph", "y": "log₁₀ (error / constant's error)"}
    words["caption"] = "Mean over targets; below 0 is better than a constant answer."
    # What is ten times as wrong as a constant answer leaves the picture: the rest is seen.
    words["limits"] = min(values) - 0.08, min(max(values), 1.0) + 0.08
    return _figure(groups, "ratio", lines, **words)


def training(groups: Groups, pattern: str = "validation_(?!loss)") -> Figure | None:
    """A column of the logs by epoch, the validation score if nothing else is asked for."""
    logged = dict.fromkeys(name for group in groups for row in group.log for name in row)
    column = next((name for name in logged if re.match(pattern, name)), "")
    lines = _lines(groups, lambda group: group.logged(column))
    name, title = column.removeprefix("validation_"), "Validation in training"
    words: dict[str, Any] = {"x": "epoch", "y": measure_of(name).title}
    if column.startswith("law:"):
        lines = [e for e in lines if max(stat.high for stat in e.points.values()) > ROUNDING]
        title, words["y"] = f"Violation of {name[4:]}", "relative violation"
    words["log"] = "y" if column.startswith("law:") or name == "mae" else ""
    words["limits"] = (-0.02, 1.03) if name == "accuracy" else None
    return _figure(groups, column, lines, title=title, **words)


def laws(groups: Groups) -> list[Figure]:
    """The violation of each law that is not built in, by epoch."""
    names = {name for group in groups for row in group.log for name in row}
    found = [training(groups, f"{n}$") for n in sorted(names) if n.startswith("law:")]
    return [figure for figure in found if figure]


def spark(figure: Figure, wanted: Sequence[str]) -> str:
    """The lines with these labels, small enough for a cell of a table."""
    lines = [line for line in figure.lines if line.label]
    lines = [line for line in lines if line.label in wanted] or lines
    return draw(figure._replace(lines=lines, rule=None), SPARK)
