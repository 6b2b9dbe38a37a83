"""Which aggregator is best at each score, whether larger than in training, how near the paper."""

from collections.abc import Sequence

from treefold.lab.report.constant_answer import best_constant
from treefold.lab.report.figure_accuracy import largest_in_training
from treefold.lab.report.figure_notes import note_of
from treefold.lab.report.groups import Group
from treefold.lab.report.seed_stats import Spread
from treefold.lab.report.styles import LEARNED, Style
from treefold.lab.report.table_accuracy import MEASURES, PREFIX, Measure, metrics_of
from treefold.lab.report.text import Link, Piece, Text, counted, listed, power_of_ten, signed

_TASKS = {
    "second-minimum": "find the second smallest of a multiset of {bits}-bit integers",
    "parity": "say whether the sum of a multiset of integers is odd",
    "count-modulo": "count the odd integers of a multiset, modulo {m}",
    "mode": "find the most frequent of a multiset of {bits}-bit integers",
    "mnist": "tell which digit an image shows, from its superpixels",
    "cifar10": "tell what an image shows, from its superpixels",
    "zinc": "predict the constrained solubility of molecules",
    "molhiv": "tell which molecules stop HIV from multiplying",
    "multi-task": "predict six properties of random graphs",
    "xor": "find the bitwise exclusive or of a multiset of {bits}-bit integers",
}


def opening(groups: Sequence[Group], styles: dict[str, Style]) -> Text:
    """What was compared, on which task, and with how much effort."""
    groups = _rivals(groups, styles) or groups
    first = groups[0]
    largest, sizes = largest_in_training(first), sorted(first.accuracy_by_size())
    words = f"{first.experiment} ({note_of(groups, styles)}): {_compared(groups, styles)}"
    words += " were trained" if len(groups) > 1 else " was trained"
    words += f" to {asked}" if (asked := _asked(first)) else ""
    words += f", from sets of at most {largest}" if largest else ""
    return (words + (f"; tested on sets of up to {sizes[-1]}." if sizes else "."),)


def score_points(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """The best at each score that the records name, then the paper's numbers beside ours."""
    rivals = _rivals(groups, styles)
    points: list[Text] = []
    for measure in MEASURES:
        metrics = metrics_of(rivals, measure)
        best = (_best(rivals, metric, measure, styles) for metric in metrics)
        points += [point for point in best if point]
        points += _beside_paper(rivals, metrics, measure, styles)
    return points


def _rivals(groups: Sequence[Group], styles: dict[str, Style]) -> Sequence[Group]:
    # The exact monoid checks the pipeline; it learns nothing.
    return [group for group in groups if styles[group.row].kind != "exact"]


def _compared(groups: Sequence[Group], styles: dict[str, Style]) -> str:
    if not groups[0].is_sweep:
        return listed([styles[group.row].label for group in groups])
    weights = [group.weight or 0.0 for group in groups]
    ends = f"{power_of_ten(max(weights))} to {power_of_ten(min(weights))}"
    return f"networks with {len(groups)} weights λ of the associativity loss, {ends},"


def _asked(group: Group) -> str:
    task = group.runs[0].record.recipe.get("task")
    options = task if isinstance(task, dict) else {}
    try:
        return _TASKS.get(str(options.get("name")), "").format(**options)
    except (KeyError, ValueError, TypeError):
        return ""


def _best(
    groups: Sequence[Group], metric: str, measure: Measure, styles: dict[str, Style]
) -> Text | None:
    found = [(group, spread) for group in groups if (spread := group.metric(metric))]
    if len(found) < 2:
        return None
    found.sort(key=lambda item: item[1].mean, reverse=measure.highest)
    best, top = found[0]
    where = f"{measure.head(metric).capitalize()}{_compared_with_training(best, metric)}"
    own = _number(best, top, measure)
    if own.text == _number(*found[-1], measure).text:
        return (f"{where}: all have ", own, ".")
    pieces: list[Piece] = [f"{where}: {styles[best.row].label} is best with ", own]
    close = [item for item in found[1:] if top.count > 1 and item[1].overlaps(top)]
    if close:
        pieces += [", in the same range over seeds as ", *_each(close, measure, styles)]
    fixed = [item for item in found if styles[item[0].row].kind == "fixed"]
    if fixed and styles[best.row].kind in LEARNED:
        pieces += ["; the best fixed aggregator is ", *_each(fixed[:1], measure, styles)]
    if best.is_sweep:
        pieces += ["; the lowest is ", *_each(found[-1:], measure, styles)]
    constant = _constant(best, metric)
    if constant is not None:
        pieces.append(f"; the best constant answer would have {constant:.3f}")
    return (*pieces, ".")


def _beside_paper(
    groups: Sequence[Group], metrics: Sequence[str], measure: Measure, styles: dict[str, Style]
) -> list[Text]:
    """How many numbers reach the paper's, and which is furthest from it."""
    sign = 1 if measure.highest else -1
    differences = [
        (round(spread.mean - theirs.value, measure.digits), group, metric, spread, theirs.value)
        for group in groups
        for metric in metrics
        if (spread := group.metric(metric)) and (theirs := group.reported(metric))
    ]
    if not differences:
        return []
    reached = sum(sign * item[0] >= 0 for item in differences)
    counts = f"Beside the paper: {reached} of {counted(len(differences), 'number')} are as good"
    worst, group, metric, spread, value = min(differences, key=lambda item: sign * item[0])
    if sign * worst >= 0:
        return [(f"{counts} or better.",)]
    where = f"{styles[group.row].label} at {measure.head(metric)}"
    number = _number(group, spread, measure)
    tail = f" against {value:.{measure.digits}f} ({signed(worst, measure.digits)})."
    return [(f"{counts} or better; furthest from it is {where}, ", number, tail)]


def _compared_with_training(group: Group, metric: str) -> str:
    largest = largest_in_training(group)
    last = metric.removeprefix(PREFIX).rpartition("-")[2]
    if not largest or not last.isdecimal():
        return ""
    return " (as in training)" if int(last) <= largest else " (larger than in training)"


def _constant(group: Group, metric: str) -> float | None:
    size, task = metric.removeprefix(PREFIX), group.runs[0].record.recipe.get("task")
    if not size.isdecimal() or not isinstance(task, dict):
        return None
    return best_constant(task, int(size))


def _number(group: Group, spread: Spread, measure: Measure) -> Link:
    return Link(f"{spread.mean:.{measure.digits}f}", group.anchor)


def _each(
    found: Sequence[tuple[Group, Spread]], measure: Measure, styles: dict[str, Style]
) -> list[Piece]:
    pieces: list[Piece] = []
    for place, (group, spread) in enumerate(found):
        pieces += [", " if place else "", f"{styles[group.row].label} ("]
        pieces += [_number(group, spread, measure), ")"]
    return pieces
