"""The figures of an experiment, from the groups of runs that they compare."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treefold.lab.report.draw import Figure, Line
from treefold.lab.report.names import GREY, NAMES, slug_of, style_of
from treefold.lab.runs import BY_SIZE, Group, Stat, is_number
from treefold.lab.tasks import best_constant

Groups = Sequence[Group]
ROUNDING = 1e-6
"""A law that is violated by less holds by construction."""


def _lines(
    groups: Groups, of: Callable[[Group], Mapping[Any, Stat]], marker: str = ""
) -> list[Line]:
    """A line for each group that has points; published ones, marked "D", go without a name."""
    lines = []
    for group in groups:
        if points := dict(of(group)):
            stride = len(points) // 250 + 1
            kept = {x: points[x] for x in (*[*points][:-1:stride], [*points][-1])}
            label, style = "" if marker == "D" else style_of(group).label, style_of(group)
            lines.append(Line(label, kept, style.colour, style.dash, marker))
    return lines


def _figure(
    groups: Groups, name: str, title: str, lines: Sequence[Line], caption: str = "", **axes: Any
) -> Figure | None:
    """A figure whose caption says what bands and diamonds are; None without lines."""
    named = [line for line in lines if line.label]
    if not named:
        return None
    words = [caption] if caption else []
    if any(each.low < each.high for line in named for each in line.points.values()):
        words.append(f"Bands: the range over {'repetitions' if name == 'seconds' else 'seeds'}.")
    if len(named) < len(lines):
        words.append("Diamonds: PNA's own figure." if name == "ratio" else "Diamonds: published.")
    slug = slug_of(name, groups[0].experiment, groups[0].variant)
    return Figure(slug, title, " ".join(words), lines=lines, **axes)


def _sizes(lines: Sequence[Line]) -> list[Any]:
    return sorted({x for line in lines for x in line.points})


def accuracy(groups: Groups, metric: str = "accuracy") -> Figure | None:
    """Accuracy against set size, as in the paper's Figures 1 and 4, or on balanced answers."""
    if not (lines := _lines(groups, lambda group: group.by_size(metric))):
        return None
    task, sizes = groups[0].runs[0].record.recipe.get("task"), _sizes(lines)
    task = task if isinstance(task, dict) else {}
    if metric == "accuracy":
        lines = [*_constant(task, int(sizes[-1])), *lines]
        lines += _lines(groups, lambda group: _published(group, "accuracy@"), "D")
    powers = [2**k for k in range(int(sizes[-1]).bit_length()) if 2**k >= sizes[0]]
    # A last size right behind a power would write over its number.
    last = [] if powers and sizes[-1] < 1.4 * powers[-1] else [sizes[-1]]
    largest = task.get("max_train_size")
    return _figure(
        groups,
        "accuracy" if metric == "accuracy" else "balanced",
        "Accuracy against set size"
        if metric == "accuracy"
        else "Accuracy where all answers are as likely",
        lines,
        x="integers in the set",
        y="accuracy",
        log="x",
        ticks={tick: f"{tick:,.0f}" for tick in (*powers, *last)},
        limits=(-0.02, 1.03),
        rule=(largest, f"largest in training: {largest}") if is_number(largest) else None,
    )


def _constant(task: Mapping[str, Any], largest: int) -> list[Line]:
    """The best constant answer, exact at every size; one integer has no second."""
    known = ((n, best_constant(task, n)) for n in range(2, min(largest, 1000) + 1))
    points = {float(n): Stat(c, c, c) for n, c in known if c is not None}
    return [Line("Best constant answer", points, GREY, "dotted")] if points else []


def _published(group: Group, prefix: str) -> dict[int, Stat]:
    names = (name for run in group.runs for name in run.record.reported)
    sizes = {n.removeprefix(prefix): group.reported(n) for n in names if n.startswith(prefix)}
    return {int(size): each for size, each in sizes.items() if size.isdecimal() and each}


def speed(groups: Groups) -> Figure | None:
    """Seconds per epoch against set size on one machine, as in the paper's Figure 3."""
    lines = _lines(groups, lambda group: group.by_size(BY_SIZE), "o")
    lines += _lines(groups, lambda group: _published(group, "seconds_per_epoch@"), "D")
    return _figure(
        groups,
        "seconds",
        "Seconds per epoch against set size",
        lines,
        x="integers in the set",
        y="seconds per epoch",
        log="xy",
        ticks={size: f"{size:,}" for size in _sizes(lines)},
    )


def ratio(groups: Groups) -> Figure | None:
    """Errors on graphs larger than in training, as in the paper's Figure 5."""
    ours, theirs = _lines(groups, _ratios, "o"), _lines(groups, _read_off, "D")
    sizes = _sizes(ours)
    flat = (
        [Line("Constant answer", dict.fromkeys(sizes, Stat(0, 0, 0)), GREY, "dotted")]
        if ours
        else []
    )
    values = [each.mean for line in (*flat, *ours, *theirs) for each in line.points.values()]
    # What is ten times as wrong as a constant answer leaves the picture: the rest is seen.
    limits = (min(values) - 0.08, min(max(values), 1.0) + 0.08) if values else None
    return _figure(
        groups,
        "ratio",
        "Error against graph size",
        [*flat, *ours, *theirs],
        "Mean over targets; below 0 is better than a constant answer.",
        x="nodes in the graph",
        y="log₁₀ (error / constant's error)",
        log="x",
        ticks={size: f"{size - 2:g}–{size + 2:g}" for size in sizes},
        limits=limits,
    )


def _ratios(group: Group) -> dict[float, Stat]:
    """The ratio by the middle of each five sizes, the smallest first."""
    found = group.by_key("log10_ratio").items()
    sizes = [(re.fullmatch(r".*?(\d+)-\d+", split), each) for split, each in found]
    by_size = {int(size[1]) + 2.0: each for size, each in sizes if size}
    return {size: by_size[size] for size in sorted(by_size)}


def _read_off(group: Group) -> dict[float, Stat]:
    values = NAMES["ratios"].get(group.row, ()) if group.experiment == "multi-task" else ()
    return {22.0 + 5 * k: Stat(y, y, y) for k, y in enumerate(values)}


def training(groups: Groups, pattern: str = "validation_(?!loss)") -> Figure | None:
    """A column of the logs by epoch, the validation score if nothing else is asked for."""
    logged = dict.fromkeys(name for group in groups for row in group.log for name in row)
    column = next((name for name in logged if re.match(pattern, name)), "")
    lines = _lines(groups, lambda group: group.logged(column))
    name, law = column.removeprefix("validation_"), column.startswith("law:")
    if law:
        lines = [e for e in lines if max(stat.high for stat in e.points.values()) > ROUNDING]
        name = name.removeprefix("law:")
    measure = NAMES["measures"].get(name, [name])[0]
    return _figure(
        groups,
        column,
        f"Violation of {name}" if law else "Validation in training",
        lines,
        x="epoch",
        y="relative violation" if law else measure,
        log="y" if law or name == "mae" else "",
        limits=(-0.02, 1.03) if name == "accuracy" else None,
    )


def laws(groups: Groups) -> list[Figure]:
    """The violation of each law that is not built in, by epoch."""
    names = {name for group in groups for row in group.log for name in row}
    found = [training(groups, f"{n}$") for n in sorted(names) if n.startswith("law:")]
    return [figure for figure in found if figure]


def spark(figure: Figure, wanted: Sequence[str]) -> str:
    """The lines with these labels without axes, small enough for a cell of a table."""
    named = [line for line in figure.lines if line.label]
    lines = [line for line in named if line.label in wanted] or named
    xs, ys = _sizes(lines), [each.mean for line in lines for each in line.points.values()]
    low, high = (0.0, 1.0) if figure.y == "accuracy" else (min(ys), max(ys))
    wide, tall = 116 / (xs[-1] - xs[0] or 1), 24 / (high - low or 1)
    drawn = ""
    for line in lines:
        places = (
            (2 + (x - xs[0]) * wide, 27 - (y.mean - low) * tall) for x, y in line.points.items()
        )
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn += f'<polyline points="{points}" stroke="{line.colour}"/>'
    return f'<svg class="spark" viewBox="0 0 120 30" aria-hidden="true">{drawn}</svg>'
