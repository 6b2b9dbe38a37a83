"""The figures of an experiment, from the groups of runs that they compare."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treefold.lab.report.constant_answer import best_constant
from treefold.lab.report.draw import Axis, Figure, Line, line_of
from treefold.lab.report.names import GREY, NAMES, slug_of
from treefold.lab.report.runs import Group, Stat, is_number

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
            label, stride = "" if marker == "D" else group.style.label, len(points) // 250 + 1
            kept = {x: points[x] for x in (*[*points][:-1:stride], [*points][-1])}
            lines.append(line_of(kept, label, group.style.colour, group.style.dash, marker))
    return lines


def _figure(
    groups: Groups, name: str, title: str, x: Axis, y: Axis, lines: Sequence[Line], **more: Any
) -> Figure | None:
    over = "repetitions" if name == "seconds" else "seeds"
    words = [f"Bands: the range over {over}."] if any(e.low and e.label for e in lines) else []
    whose = more.pop("diamonds", "published")
    words += [f"Diamonds: {whose}."] if any(each.marker == "D" for each in lines) else []
    caption = " ".join([*more.pop("words", []), *words])
    slug = slug_of(name, groups[0].experiment, groups[0].variant) if lines else ""
    return Figure(slug, title, caption, x, y, lines, **more) if lines else None


def accuracy(groups: Groups, metric: str = "accuracy") -> Figure | None:
    """Accuracy against set size, as in the paper's Figures 1 and 4, or on balanced answers."""
    lines, plain = _lines(groups, lambda g: g.by_size(metric)), metric == "accuracy"
    sizes = sorted({int(x) for each in lines for x in each.x}) or [1]
    task = groups[0].runs[0].record.recipe.get("task")
    task = task if isinstance(task, dict) else {}
    # Exact at every size, also where no network was evaluated; one integer has no second.
    every = range(max(2, sizes[0]), sizes[-1] + 1) if sizes[-1] <= 1000 and plain else ()
    known = {n: Stat(c, c, c) for n in every if (c := best_constant(task, n)) is not None}
    constant = [line_of(known, "Best constant answer", GREY, "dotted", "")] if known else []
    diamonds = _lines(groups, lambda g: _published(g, "accuracy@"), "D") if plain else []
    powers = [2**k for k in range(sizes[-1].bit_length()) if 2**k >= sizes[0]]
    # A last size right behind a power would write over its number.
    ticks = [*powers, *([sizes[-1]] if not powers or sizes[-1] > 1.4 * powers[-1] else [])]
    largest = task.get("max_train_size")
    return _figure(
        groups,
        "accuracy" if plain else "balanced",
        "Accuracy against set size" if plain else "Accuracy where all answers are as likely",
        Axis("integers in the set", True, ticks, [f"{tick:,}" for tick in ticks]),
        Axis("accuracy", limits=(-0.02, 1.03)),
        [*constant, *lines, *diamonds] if lines else [],
        rule=(largest, f"largest in training: {largest}") if is_number(largest) else None,
    )


def _published(group: Group, prefix: str) -> dict[int, Stat]:
    names = (name for run in group.runs for name in run.record.reported)
    sizes = {n.removeprefix(prefix): group.reported(n) for n in names if n.startswith(prefix)}
    return {int(size): each for size, each in sizes.items() if size.isdecimal() and each}


def speed(groups: Groups) -> Figure | None:
    """Seconds per epoch against set size on one machine, as in the paper's Figure 3."""
    lines = _lines(groups, lambda group: group.by_size("seconds_per_epoch_by_size"), "o")
    diamonds = _lines(groups, lambda g: _published(g, "seconds_per_epoch@"), "D") if lines else []
    sizes = sorted({x for each in lines for x in each.x})
    x = Axis("integers in the set", True, sizes, [f"{size:,}" for size in sizes])
    y, lines = _log_axis("seconds per epoch", [*lines, *diamonds]), [*lines, *diamonds]
    return _figure(groups, "seconds", "Seconds per epoch against set size", x, y, lines)


def ratio(groups: Groups) -> Figure | None:
    """Errors on graphs larger than in training, as in the paper's Figure 5."""
    lines, diamonds = _lines(groups, _ratios, "o"), _lines(groups, _read_off, "D")
    sizes = sorted({x for each in lines for x in each.x})
    flat = Line("Constant answer", sizes, [0.0] * len(sizes), GREY, dash="dotted")
    values = [0.0, *(y for each in (*lines, *diamonds) for y in each.y)]
    # What is ten times as wrong as a constant answer leaves the picture: the rest is seen.
    limits = min(values) - 0.08, min(max(values), 1.0) + 0.08
    return _figure(
        groups,
        "ratio",
        "Error against graph size",
        Axis("nodes in the graph", True, sizes, [f"{size - 2:g}–{size + 2:g}" for size in sizes]),
        Axis("log₁₀ (error / constant's error)", limits=limits),
        [flat, *lines, *diamonds] if lines else [],
        words=["Mean over targets; below 0 is better than a constant answer."],
        diamonds="PNA's, read off its figure",
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
    logged = {name: None for g in groups for run in g.finished for row in run.log for name in row}
    column = next((name for name in logged if re.match(pattern, name)), "")
    words, law = re.sub(r"^(law:|validation_)", "", column), column.startswith("law:")
    lines = _lines(groups, lambda group: group.logged(column))
    lines = [each for each in lines if not law or max((*each.y, *each.high)) > ROUNDING]
    limits = (-0.02, 1.03) if words == "accuracy" else None
    axis = Axis(words.replace("_", " "), limits=limits)
    axis = (
        _log_axis("relative violation" if law else words, lines) if law or words == "mae" else axis
    )
    title = f"Violation of {words}" if law else "Validation in training"
    return _figure(groups, column, title, Axis("epoch"), axis, lines)


def laws(groups: Groups) -> list[Figure]:
    """The violation of each law that is not built in, by epoch."""
    names = {name for g in groups for run in g.finished for row in run.log for name in row}
    found = [training(groups, f"{n}$") for n in sorted(names) if n.startswith("law:")]
    return [figure for figure in found if figure]


def _log_axis(title: str, lines: Sequence[Line]) -> Axis:
    """A logarithmic axis that fits the lines, with more ticks where it is short."""
    values = [y for each in lines for y in (*each.y, *each.low, *each.high) if y > 0] or [1.0]
    low, high = min(values) / 1.2, max(values) * 1.2
    steps = (1,) if high / low > 300 else (1, 2, 5) if high / low > 8 else (1, 1.5, *range(2, 10))
    ticks = [float(f"{step}e{power}") for power in range(-12, 9) for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return Axis(title, True, ticks, [f"{tick:g}" for tick in ticks], (low, high))


def spark(lines: Sequence[Line]) -> str:
    """Lines without axes, small enough for a cell of a table."""
    xs, ys = [x for each in lines for x in each.x], [y for each in lines for y in each.y]
    if not xs or min(xs) == max(xs):
        return ""
    drawn, wide, tall = "", 116 / (max(xs) - min(xs)), 24 / (max(ys) - min(ys) or 1)
    for each in lines:
        places = (
            (2 + (x - min(xs)) * wide, 27 - (y - min(ys)) * tall)
            for x, y in zip(each.x, each.y, strict=True)
        )
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn += f'<polyline points="{points}" stroke="{each.colour}"/>'
    return f'<svg class="spark" viewBox="0 0 120 30" aria-hidden="true">{drawn}</svg>'
