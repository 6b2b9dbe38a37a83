"""Accuracy against set size, as in the paper's figure fig:2min_1k_baselines."""

from collections.abc import Sequence

from treefold.lab.report.constant_answer import best_constant
from treefold.lab.report.figure import Axis, Figure, Line, Rule, curve, published_points, slug_of
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import Group
from treefold.lab.report.published import Published
from treefold.lab.report.styles import GREY, Style
from treefold.lab.report.text import listed

PREFIX = "accuracy@"


def accuracy_figure(groups: Sequence[Group], styles: dict[str, Style]) -> Figure | None:
    """One curve for each aggregator, with its range over seeds; None without such metrics."""
    drawn = [group for group in groups if group.accuracy_by_size() and not group.is_sweep]
    if not drawn:
        return None
    sizes = sorted({size for group in drawn for size in group.accuracy_by_size()})
    lines = [_constant_line(drawn[0], sizes), *(_curve(g, styles[g.row]) for g in drawn)]
    lines += [_published(group, styles[group.row]) for group in drawn]
    largest = largest_in_training(drawn[0])
    first = drawn[0]
    return Figure(
        slug_of("accuracy", first.experiment, first.variant),
        f"Accuracy against set size: {first.experiment}",
        note_of(drawn, styles),
        _caption(drawn, sizes),
        Axis("integers in the set", True, *size_ticks(sizes)),
        Axis("accuracy", limits=(-0.02, 1.03)),
        tuple(line for line in lines if line),
        tuple([Rule(largest, f"largest in training: {largest}")] if largest else []),
        sources_of(drawn, styles),
    )


def largest_in_training(group: Group) -> int | None:
    """The size of the largest sets in training."""
    found = group.runs[0].option("task", "max_train_size")
    return found if isinstance(found, int) and 0 < found < 1_000_000 else None


def size_ticks(sizes: Sequence[int]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """The powers of two among the sizes, where trees grow by a level, and the last size."""
    powers = [2**k for k in range(sizes[-1].bit_length()) if 2**k >= sizes[0]]
    # A last size right behind a power would write over its label.
    ticks = [*powers, *([sizes[-1]] if not powers or sizes[-1] > 1.25 * powers[-1] else [])]
    return tuple(map(float, ticks)), tuple(map(str, ticks))


def _curve(group: Group, style: Style) -> Line | None:
    return curve(style.label, group.accuracy_by_size(), style.colour, style.dash)


def _published_by_size(group: Group) -> dict[int, Published]:
    names = (name for name in group.runs[0].record.reported if name.startswith(PREFIX))
    sizes = {name.removeprefix(PREFIX): group.reported(name) for name in names}
    found = {int(size): entry for size, entry in sizes.items() if size.isdecimal() and entry}
    return {size: found[size] for size in sorted(found) if size > 0}


def _published(group: Group, style: Style) -> Line | None:
    points = _published_by_size(group)
    return published_points(f"{style.label}, paper", points, style.colour, in_legend=False)


def _constant_line(group: Group, sizes: Sequence[int]) -> Line | None:
    task = group.runs[0].record.recipe.get("task")
    # Exact at every size, also where no network was evaluated.
    sizes = range(sizes[0], sizes[-1] + 1) if sizes[-1] <= 1000 else sizes
    found = {size: best_constant(task, size) for size in sizes} if isinstance(task, dict) else {}
    points = {size: value for size, value in found.items() if value is not None}
    if not points:
        return None
    values = tuple(float(f"{value:.5g}") for value in points.values())
    return Line("best constant answer", tuple(map(float, points)), values, GREY, dash="dot")


def _caption(groups: Sequence[Group], sizes: Sequence[int]) -> str:
    sentences = ["The band is the range over seeds."] if _has_bands(groups) else []
    sentences.append("Vertical grid lines are powers of two, where a balanced tree gains a level.")
    sources = {e.source for group in groups for e in _published_by_size(group).values()}
    if sources:
        sentences.append(f"Diamonds are the paper's values ({listed(sorted(sources))}).")
    if _constant_line(groups[0], sizes[:1]):
        sentences.append(
            "The dotted line is the best answer that ignores the set, computed exactly."
        )
    return " ".join(sentences)


def _has_bands(groups: Sequence[Group]) -> bool:
    return any(len(group.finished) > 1 for group in groups)
