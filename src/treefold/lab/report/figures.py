"""The figures of an experiment, from the groups of runs that they compare."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treefold.lab.report.constant_answer import best_constant
from treefold.lab.report.draw import Axis, Figure, Line, line_of
from treefold.lab.report.names import GREY, NAMES, power_of_ten, scale, slug_of
from treefold.lab.report.runs import Group, Stat

Groups = Sequence[Group]
SHARE = (-0.02, 1.03)
BAND = "Bands: the range over seeds."
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


def _published(group: Group, prefix: str) -> dict[int, Stat]:
    names = (name for run in group.runs for name in run.record.reported)
    sizes = {n.removeprefix(prefix): group.reported(n) for n in names if n.startswith(prefix)}
    return {int(size): each for size, each in sizes.items() if size.isdecimal() and each}


def accuracy(groups: Groups, metric: str = "accuracy") -> Figure | None:
    """Accuracy against set size, as in the paper's Figure 1; or on sets with balanced answers."""
    lines, plain = _lines(groups, lambda g: g.by_size(metric)), metric == "accuracy"
    if not lines:
        return None
    diamonds = _lines(groups, lambda g: _published(g, "accuracy@"), "D") if plain else []
    sizes = sorted({int(x) for each in lines for x in each.x})
    task, largest = groups[0].runs[0].record.recipe.get("task"), sizes[-1]
    # Exact at every size, also where no network was evaluated; one integer has no second.
    every = range(max(2, sizes[0]), largest + 1) if largest <= 1000 and plain else ()
    known = {n: best_constant(task, n) for n in every} if isinstance(task, dict) else {}
    found = {n: Stat(c, c, c) for n, c in known.items() if c is not None}
    constant = [line_of(found, "Best constant answer", GREY, "dotted", "")] if found else []
    in_training = groups[0].runs[0].option("task", "max_train_size")
    powers = [2**k for k in range(largest.bit_length()) if 2**k >= sizes[0]]
    # A last size right behind a power would write over its number.
    ticks = [*powers, *([largest] if not powers or largest > 1.4 * powers[-1] else [])]
    words = "Diamonds: published." if diamonds else ""
    words = words if plain else "Answers are drawn first, so that none is right by being common."
    return Figure(
        slug_of("accuracy" if plain else "balanced", groups[0].experiment, groups[0].variant),
        "Accuracy against set size" if plain else "Accuracy on sets with evenly spread answers",
        f"{words} {BAND if any(each.low for each in lines) else ''}",
        Axis("integers in the set", True, ticks, [f"{tick:,}" for tick in ticks]),
        Axis("accuracy", limits=SHARE),
        [*constant, *lines, *diamonds],
        (in_training, f"largest in training: {in_training}") if in_training else None,
    )


def sweep(groups: Groups) -> Figure | None:
    """Accuracy on larger and larger sets against λ, as in the paper's Figure 4."""
    found = {g.weight: sizes for g in groups if g.weight and (sizes := g.by_size("accuracy"))}
    if len(found) < 2:
        return None
    weights = sorted(weight for weight in found if weight)
    sizes = [n for n in (16, 32, 64, 128, 200) if all(n in by_size for by_size in found.values())]
    lines = [
        line_of(
            {w: found[w][n] for w in weights}, f"Sets of {n}", scale(k / len(sizes)), "solid", "o"
        )
        for k, n in enumerate(sizes)
    ]
    return Figure(
        slug_of("lambda", groups[0].experiment, groups[0].variant),
        "Accuracy against the weight of the associativity loss",
        BAND if any(each.low for each in lines) else "",
        Axis("λ", True, weights, [power_of_ten(weight) for weight in weights]),
        Axis("accuracy", limits=SHARE),
        lines,
    )


def ratio(groups: Groups) -> Figure | None:
    """Errors on graphs larger than in training, as in the paper's Figure 5."""
    lines, diamonds = _lines(groups, ratios, "o"), _lines(groups, _read_off, "D")
    if not lines:
        return None
    sizes = sorted({x for each in lines for x in each.x})
    lines = [Line("Constant answer", sizes, [0.0] * len(sizes), GREY, dash="dotted"), *lines]
    values = [y for each in (*lines, *diamonds) for y in each.y]
    # What is ten times as wrong as a constant answer leaves the picture: the rest is seen.
    low, high = min(values), min(max(values), 1.0)
    caption = "Mean over targets of log₁₀ of an error over a constant answer's; below 0 is better."
    caption += " Diamonds: PNA's, read off its figure." if diamonds else ""
    beyond = [each.label for each in lines if max(each.y) > high]
    caption += f" Out of the picture: {', '.join(beyond)}." if beyond else ""
    return Figure(
        slug_of("ratio", groups[0].experiment, groups[0].variant),
        "Error against graph size",
        caption,
        Axis("nodes in the graph", True, sizes, [f"{size - 2:g}–{size + 2:g}" for size in sizes]),
        Axis("log₁₀ (error / constant's error)", limits=(low - 0.08, high + 0.08)),
        [*lines, *diamonds],
    )


def ratios(group: Group) -> dict[float, Stat]:
    """The ratio by the middle of each five sizes, the smallest first."""
    found = group.by_key("log10_ratio").items()
    sizes = [(re.fullmatch(r".*?(\d+)-\d+", split), each) for split, each in found]
    by_size = {int(size[1]) + 2.0: each for size, each in sizes if size}
    return {size: by_size[size] for size in sorted(by_size)}


def _read_off(group: Group) -> dict[float, Stat]:
    values = NAMES["ratios"].get(group.row, ()) if group.experiment == "multi-task" else ()
    return {22.0 + 5 * k: Stat(y, y, y) for k, y in enumerate(values)}


def speed(groups: Groups) -> Figure | None:
    """Seconds per epoch against set size on one machine, as in the paper's Figure 3."""
    lines = _lines(groups, lambda group: group.by_size("seconds_per_epoch_by_size"), "o")
    if not lines:
        return None
    diamonds = _lines(groups, lambda group: _published(group, "seconds_per_epoch@"), "D")
    sizes = sorted({x for each in lines for x in each.x})
    return Figure(
        slug_of("seconds", groups[0].experiment, groups[0].variant),
        "Seconds per epoch against set size",
        "Diamonds: the paper's GPU." if diamonds else "",
        Axis("integers in the set", True, sizes, [f"{size:,}" for size in sizes]),
        _log_axis("seconds per epoch", [*lines, *diamonds]),
        [*lines, *diamonds],
    )


_SCORES = ("validation_accuracy", "validation_mae", "validation_roc-auc", "validation_log10_mse")


def training(groups: Groups, columns: Sequence[str] = _SCORES) -> Figure | None:
    """The first of the columns that was logged, by epoch; a law only if it is not built in."""
    column = next((c for c in columns if any(g.logged(c) for g in groups)), "")
    lines, law = _lines(groups, lambda group: group.logged(column)), column.startswith("law:")
    lines = [each for each in lines if not law or max((*each.y, *each.high)) > ROUNDING]
    if not lines:
        return None
    words = column.partition(":" if law else "_")[2].replace("_", " ")
    log = _log_axis("mean relative violation" if law else words, lines)
    share = Axis(words, limits=SHARE if words == "accuracy" else None)
    return Figure(
        slug_of(column, groups[0].experiment, groups[0].variant),
        f"Violation of {words}" if law else f"Validation {words} in training",
        BAND if any(each.low for each in lines) else "",
        Axis("epoch"),
        log if law or words == "mae" else share,
        lines,
    )


def laws(groups: Groups) -> list[Figure]:
    """The violation of each law that is not built in, by epoch."""
    names = {name for g in groups for run in g.finished for row in run.log for name in row}
    found = [training(groups, [name]) for name in sorted(names) if name.startswith("law:")]
    return [figure for figure in found if figure]


def _log_axis(title: str, lines: Sequence[Line]) -> Axis:
    """A logarithmic axis that fits the lines, with ticks at 1, 2, 5, or powers of ten if many."""
    values = [y for each in lines for y in (*each.y, *each.low, *each.high) if y > 0]
    low, high = min(values, default=1) / 1.2, max(values, default=1) * 1.2
    steps = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(-12, 9) for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return Axis(title, True, ticks, [f"{tick:g}" for tick in ticks], (low, high))


def spark(lines: Sequence[Line]) -> str:
    """Lines without axes, small enough for a cell of a table."""
    xs, ys = ([value for each in lines for value in each[place]] for place in (1, 2))
    if not xs or min(xs) == max(xs):
        return ""
    wide, tall = 116 / (max(xs) - min(xs)), 24 / (max(ys) - min(ys) or 1)
    drawn = ""
    for each in lines:
        pairs = zip(each.x, each.y, strict=True)
        points = (
            f"{2 + (x - min(xs)) * wide:.1f},{27 - (y - min(ys)) * tall:.1f}" for x, y in pairs
        )
        drawn += f'<polyline points="{" ".join(points)}" stroke="{each.colour}"/>'
    return f'<svg class="spark" viewBox="0 0 120 30" aria-hidden="true">{drawn}</svg>'
