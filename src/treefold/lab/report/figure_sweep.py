"""Accuracy at several set sizes against λ, the weight of the associativity loss."""

from collections.abc import Sequence

from treefold.lab.report.figure import Axis, Figure, Line, curve, slug_of
from treefold.lab.report.figure_accuracy import largest_in_training
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import SWEEP, Group
from treefold.lab.report.seed_stats import Spread
from treefold.lab.report.styles import Style, scale
from treefold.lab.report.text import Link, power_of_ten


def sweep_figure(
    groups: Sequence[Group], everything: Sequence[Group], styles: dict[str, Style]
) -> Figure | None:
    """One curve for each size; `everything` is searched for the same recipe without the loss."""
    swept = [g for g in groups if g.is_sweep and g.weight and g.accuracy_by_size()]
    if not swept:
        return None
    weights = sorted({group.weight or 0.0 for group in swept})
    sizes = _sizes_to_show(swept)
    colours = dict(zip(sizes, scale(len(sizes)), strict=True))
    plain = _without_loss(swept[0], everything)
    lines = [_at_size(swept, size, colours[size]) for size in sizes]
    if plain:
        lines += [_level(plain, size, weights, colours[size]) for size in sizes]
    sources = sources_of(swept, styles)
    return Figure(
        slug_of("lambda", swept[0].experiment, swept[0].variant),
        f"Accuracy against the weight λ of the associativity loss: {swept[0].experiment}",
        note_of(swept, styles),
        _caption(swept, plain, styles),
        Axis("λ", True, tuple(weights), tuple(map(power_of_ten, weights))),
        Axis("accuracy", limits=(-0.02, 1.03)),
        tuple(line for line in lines if line),
        sources=(*sources, Link(styles[plain.row].label, plain.anchor)) if plain else sources,
    )


def _sizes_to_show(groups: Sequence[Group]) -> list[int]:
    """From the largest training set on, doubling, and the largest that was evaluated."""
    sizes = sorted(set.intersection(*(set(group.accuracy_by_size()) for group in groups)))
    smallest = largest_in_training(groups[0]) or 1
    doubling = [size for size in sizes if size >= smallest and size & (size - 1) == 0]
    return sorted({*doubling, *sizes[-1:]})


def _at_size(groups: Sequence[Group], size: int, colour: str) -> Line | None:
    points: dict[float, Spread] = {g.weight or 0.0: g.accuracy_by_size()[size] for g in groups}
    return curve(f"sets of {size}", points, colour, mode="lines+markers")


def _level(group: Group, size: int, weights: Sequence[float], colour: str) -> Line | None:
    found = group.accuracy_by_size().get(size)
    if found is None or len(weights) < 2:
        return None
    ends = (weights[0], weights[-1])
    label = f"sets of {size}, λ = 0"
    return Line(label, ends, (found.mean, found.mean), colour, dash="dot", in_legend=False)


def _without_loss(swept: Group, everything: Sequence[Group]) -> Group | None:
    base = swept.experiment.removesuffix(SWEEP)
    found = (
        group
        for group in everything
        if (group.experiment, group.variant, group.row) == (base, swept.variant, "binary-gru")
    )
    return next((group for group in found if group.accuracy_by_size()), None)


def _caption(swept: Sequence[Group], plain: Group | None, styles: dict[str, Style]) -> str:
    sentences = []
    if any(len(group.finished) > 1 for group in swept):
        sentences.append("The band is the range over seeds.")
    if plain:
        label = styles[plain.row].label
        sentences.append(f"Dotted lines are λ = 0: {label} of {plain.experiment}, same preset.")
    sentences.append("The paper's sweep is its figure fig:2min_regularisation.")
    return " ".join(sentences)
