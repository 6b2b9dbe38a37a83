"""What was compared and what came out, in plain words made from the numbers."""

from collections.abc import Sequence

from treefold.report.constant_answer import best_constant
from treefold.report.figure_accuracy import largest_in_training
from treefold.report.figure_notes import note_of
from treefold.report.groups import Group, sections
from treefold.report.spread import Spread
from treefold.report.styles import LEARNED, Style
from treefold.report.summary_speed import speed_sentences
from treefold.report.summary_training import law_sentences
from treefold.report.table_accuracy import PREFIX, accuracy_metrics, in_words
from treefold.report.text import Link, Text, counted, listed, signed

_TASKS = {
    "second-minimum": "find the second smallest of a multiset of {bits}-bit integers",
    "parity": "say whether the sum of a multiset of integers is odd",
    "count-modulo": "count the odd integers of a multiset, modulo {m}",
    "mode": "find the most frequent of a multiset of {bits}-bit integers",
    "xor": "find the exclusive or of a multiset of {bits}-bit integers",
}


def summarize(groups: Sequence[Group], styles: dict[str, Style], num_damaged: int) -> list[Text]:
    """One paragraph for each experiment and preset, then what is missing."""
    paragraphs: list[Text] = []
    for members in sections(groups).values():
        finished = [group for group in members if group.finished]
        told = _comparison(finished, styles) + speed_sentences(finished, styles)
        told += law_sentences(finished, styles)
        if told:
            paragraphs.append(_joined(told))
    return [*paragraphs, *_missing(groups, num_damaged)]


def _comparison(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    metrics = accuracy_metrics(groups)
    learned_or_fixed = [group for group in groups if styles[group.row].kind != "exact"]
    if not metrics or not learned_or_fixed:
        return []
    sentences = [_opening(learned_or_fixed, styles)]
    for metric in metrics:
        sentences += _best(learned_or_fixed, metric, styles)
    return sentences + _beside_paper(learned_or_fixed, metrics, styles)


def _opening(groups: Sequence[Group], styles: dict[str, Style]) -> Text:
    first = groups[0]
    task = first.runs[0].record.recipe.get("task")
    options = task if isinstance(task, dict) else {}
    asked = _TASKS.get(str(options.get("name")), "")
    try:
        asked = asked.format(**options)
    except (KeyError, ValueError, TypeError):
        asked = ""
    labels = listed([styles[group.row].label for group in groups])
    largest, sizes = largest_in_training(first), sorted(first.accuracy_by_size())
    words = f"{first.experiment} ({note_of(groups, styles)}): "
    words += f"{labels} learned to {asked}" if asked else f"{labels} were trained"
    words += f", from sets of at most {largest}" if largest else ""
    return (words + (f", and were tested on sets of up to {sizes[-1]}." if sizes else "."),)


def _best(groups: Sequence[Group], metric: str, styles: dict[str, Style]) -> list[Text]:
    found = [(group, spread) for group in groups if (spread := group.metric(metric))]
    if len(found) < 2:
        return []
    found.sort(key=lambda item: -item[1].mean)
    (best, top), others = found[0], found[1:]
    sentence: list[str | Link] = [
        f"At {in_words(metric)}{_where(best, metric)}, {styles[best.row].label} is best with ",
        _number(best, top),
    ]
    close = [item for item in others if top.count > 1 and item[1].overlaps(top)]
    if close:
        sentence.append("; over the seeds its range overlaps that of ")
        sentence += _each(close, styles)
    fixed = [item for item in found if styles[item[0].row].kind == "fixed"]
    if fixed and styles[best.row].kind in LEARNED:
        sentence.append(f"; the best fixed aggregator, {styles[fixed[0][0].row].label}, has ")
        sentence.append(_number(*fixed[0]))
    constant = _constant(best, metric)
    if constant is not None:
        sentence.append(f"; the best constant answer would have {constant:.3f}")
    return [(*sentence, ".")]


def _beside_paper(
    groups: Sequence[Group], metrics: Sequence[str], styles: dict[str, Style]
) -> list[Text]:
    """How many numbers reach the paper's, and which is furthest below."""
    differences = [
        (spread.mean - theirs["value"], group, metric, spread, theirs["value"])
        for group in groups
        for metric in metrics
        if (spread := group.metric(metric)) and (theirs := group.reported(metric))
    ]
    if not differences:
        return []
    reached = sum(round(item[0], 3) >= 0 for item in differences)
    counts = f"{reached} of {counted(len(differences), 'number')} reach the paper's or pass it"
    worst, group, metric, spread, value = min(differences, key=lambda item: item[0])
    if round(worst, 3) >= 0:
        return [(f"{counts}.",)]
    where = f"{styles[group.row].label} at {in_words(metric)}"
    tail = f" against {value:.3f} ({signed(worst)})."
    return [(f"{counts}; furthest below is {where}, with ", _number(group, spread), tail)]


def _missing(groups: Sequence[Group], num_damaged: int) -> list[Text]:
    unfinished = sum(len(group.unfinished) for group in groups)
    single = [g for g in groups if len({run.record.seed for run in g.finished}) == 1]
    told: list[Text] = []
    if single:
        told.append(
            (
                f"{len(single)} of {counted(len(groups), 'row')} have one seed only: do not read "
                "much into small differences there.",
            )
        )
    if unfinished:
        told.append((f"Not finished, and in no mean: {counted(unfinished, 'run')}, listed below.",))
    if num_damaged:
        told.append((f"Could not be read: {counted(num_damaged, 'file')}, listed below.",))
    return [_joined(told)] if told else []


def _where(group: Group, metric: str) -> str:
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


def _number(group: Group, spread: Spread) -> Link:
    return Link(f"{spread.mean:.3f}", group.anchor)


def _each(found: Sequence[tuple[Group, Spread]], styles: dict[str, Style]) -> list[str | Link]:
    pieces: list[str | Link] = []
    for group, spread in found:
        pieces += [", " if pieces else "", f"{styles[group.row].label} ("]
        pieces += [_number(group, spread), ")"]
    return pieces


def _joined(sentences: Sequence[Text]) -> Text:
    pieces: list[str | Link] = []
    for sentence in sentences:
        pieces += [" ", *sentence] if pieces else list(sentence)
    return tuple(pieces)
