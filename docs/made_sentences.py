"""The sentences that pages quote from records: what is counted or compared is never typed.

A sentence is made from groups of finished runs, as a table is.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from treefold.lab.experiments.sets import REPORTED_IN_TEXT
from treefold.lab.runs import Group, Run, Stat
from treefold.lab.tasks import best_constant

LAW = "law:associativity"
SECONDS = "seconds_per_epoch_by_size"
WIDTH = 110
REAL = tuple(
    name + edges for name in ("zinc", "molhiv", "mnist", "cifar10") for edges in ("", "-edges")
)


@dataclass(frozen=True)
class MadeSentences:
    """The runs of some experiments, and what is said of them."""

    experiments: tuple[str, ...]
    said: Callable[[Sequence[Group]], str]

    def lines(self, groups: Sequence[Group]) -> list[str]:
        """The sentences, in lines; an item of a list is a line of its own."""
        return [
            piece
            for line in self.said(groups).splitlines()
            for piece in [""] * (not line) + wrap(
                line, WIDTH, subsequent_indent="  " * line.startswith("- "),
                break_long_words=False, break_on_hyphens=False,
            )
        ]  # fmt: skip


def row_of(groups: Sequence[Group], name: str) -> Group:
    """The only row of that name."""
    (found,) = [group for group in groups if group.row == name]
    return found


def regularised_beside_plain(groups: Sequence[Group]) -> str:
    """At how many sizes Binary-GRU-Assoc is above Binary-GRU, and by how much at some."""
    assoc, plain = row_of(groups, "binary-gru-assoc"), row_of(groups, "binary-gru")
    uniform = _wins(assoc, plain, "accuracy")
    balanced = _wins(assoc, plain, "balanced_accuracy")
    constant = best_constant(assoc.runs[0].record.recipe["task"], 200) or 0.0
    ours, theirs = assoc.by_size("accuracy"), plain.by_size("accuracy")
    first = max(size for size in ours if ours[size].mean <= theirs[size].mean) + 1
    at = ", ".join(
        f"{ours[size].mean:.3f} against {theirs[size].mean:.3f} at {size}"
        for size in (16, 32, 64, 128, 200)
    )
    return (
        f"On uniform sets `{assoc.row}` after {_epochs(assoc)} epochs is above `{plain.row}` after "
        f"{_epochs(plain)} at {uniform} sizes, among them all from {first} up: {at}, where the "
        f"best constant answer has {constant:.3f}. On balanced sets it is above at {balanced} "
        "sizes."
    )


def _wins(first: Group, second: Group, metric: str) -> str:
    ours, theirs = first.by_size(metric), second.by_size(metric)
    above = sum(ours[size].mean > theirs[size].mean for size in ours)
    return f"{above} of {len(ours)}"


def _epochs(group: Group) -> str:
    (found,) = {run.record.epochs for run in group.finished}
    return f"{found:,}"


def course_of_associativity(groups: Sequence[Group]) -> str:
    """The first, highest and last violation of each run."""
    lines = []
    for group in groups:
        for run in group.finished if group.row == "binary-gru" else ():
            curve = {int(row["epoch"]): row[LAW] for row in run.log if LAW in row}
            first, last, peak = min(curve), max(curve), max(curve, key=lambda e: curve[e])
            low = min((e for e in curve if e <= peak), key=lambda e: curve[e])
            dip = f"{curve[low]:.3f} after epoch {low}, " if low not in (first, peak) else ""
            lines.append(
                f"- seed {run.record.seed}: {curve[first]:.3f} after epoch {first}, {dip}"
                f"{curve[peak]:.3f} after epoch {peak} and {curve[last]:.3f} after the last, {last}"
            )
    return "\n".join(lines)


def first_of_equals(groups: Sequence[Group]) -> str:
    """The runs that took the first of equally accurate epochs, not that with the lowest loss."""
    found = [(group, [run for run in group.finished if _took_the_first(run)]) for group in groups]
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for group, runs in found:
        seeds = ", ".join(str(run.record.seed) for run in runs)
        if runs:
            rows[group.experiment, group.variant, seeds].append(f"`{group.row}`")
    total = sum(len(runs) for _, runs in found)
    listed = [
        f"- `{experiment}`, preset `{variant}`, seed {seeds}: {', '.join(names)}"
        for (experiment, variant, seeds), names in rows.items()
    ]
    opening = f"{total} records have the first of equally accurate epochs, not that of lowest loss:"
    return "\n".join([opening, "", *listed])


def _took_the_first(run: Run) -> bool:
    rows = [row for row in run.log if "validation_accuracy" in row]
    best = run.record.metrics.get("best_epoch")
    top = max((row["validation_accuracy"] for row in rows), default=None)
    equal = [row for row in rows if row["validation_accuracy"] == top]
    lowest = min((row["validation_loss"] for row in equal), default=0.0)
    taken = [row for row in equal if row["epoch"] == best]
    return bool(taken) and taken[0]["validation_loss"] > lowest


def tree_beside_chain(groups: Sequence[Group]) -> str:
    """The time of the learned tree, as a share of that of the learned chain."""
    tree, chain = row_of(groups, "binary-gru"), row_of(groups, "gru")
    law = row_of(groups, "binary-gru-assoc")
    ours, theirs = tree.by_size(SECONDS), chain.by_size(SECONDS)
    sizes = f"{', '.join(map(str, list(ours)[:-1]))} and {list(ours)[-1]}"

    def times(group: Group) -> str:
        seconds = group.by_size(SECONDS)
        return ", ".join(f"{seconds[size].mean / theirs[size].mean:.2f}" for size in ours)

    return (
        f"At sets of {sizes}, preset `{tree.variant}`, `{tree.row}` takes {times(tree)} times as "
        f"long as `{chain.row}`, and `{law.row}` {times(law)} times."
    )


def paper_against_itself(groups: Sequence[Group]) -> str:
    """Numbers that differ between the paper's table and its text."""
    return " ".join(
        f"Of `{row}` at {metric.partition('@')[2]} the paper has {table.mean:.3f} ± "
        f"{table.deviation:.3f} in its table, as here, and {text.value:.3f} ± {text.spread:.3f} in "
        "its text."
        for row, numbers in REPORTED_IN_TEXT.items()
        for metric, text in numbers.items()
        if (table := row_of(groups, row).reported(metric))
    )


def loss_far_out(groups: Sequence[Group]) -> str:
    """The accuracy at 200 with each weight of the associativity loss, and without."""
    told = [
        f"{_mean(group.metric('accuracy@200'))} {_loss_of(group)} ({_seeds(group)})"
        for group in groups
    ]
    return f"At 200 the accuracy is {', '.join(told)}."


def depth_drops(groups: Sequence[Group]) -> str:
    """The fall of accuracy where balanced trees become deeper, next to falls in between."""
    lines = []
    for group in groups:
        at = {size: found.mean for size, found in group.by_size("accuracy").items()}
        if group.row.startswith("binary-gru") and POWERS[-1] + BETWEEN + 4 in at:
            here = [_fall(at, power) for power in POWERS]
            near = [(_fall(at, p - BETWEEN) + _fall(at, p + BETWEEN)) / 2 for p in POWERS]
            lines.append(
                f"- {_loss_of(group)} ({_seeds(group)}): {_numbers(here)} around "
                f"{', '.join(map(str, POWERS))}; {_numbers(near)} between them"
            )
    return "\n".join(lines)


POWERS, BETWEEN = (32, 64, 128), 12
"""Sizes after which a tree is deeper, and how far from them the falls to compare with are."""


def _fall(at: dict[int, float], size: int) -> float:
    """The mean of the four sizes before, less that of the four after."""
    return sum(at[size - k] - at[size + k] for k in range(1, 5)) / 4


def rise_and_fall(groups: Sequence[Group]) -> str:
    """In how many runs without the loss the violation ends below its peak, and by how much."""
    runs = [run for group in groups if group.row == "binary-gru" for run in group.finished]
    curves = [[row[LAW] for row in run.log if LAW in row] for run in runs]
    fell = sum(curve[0] < max(curve) > curve[-1] for curve in curves)
    first, peak, last = (
        sum(map(of, curves)) / len(curves) for of in (lambda c: c[0], max, lambda c: c[-1])
    )
    return (
        f"In {fell} of {len(curves)} runs of `binary-gru` it rises above its first value and ends "
        f"below its peak: {first:.3f}, {peak:.3f} and {last:.3f} on average."
    )


def edge_features(groups: Sequence[Group]) -> str:
    """The gain by edge features on CIFAR10, of learned and of fixed rows, in points."""
    by_name = {(g.experiment, g.row): g for g in groups}
    gains = [
        f"{100 * (_score(found) - _score(plain)):+.2f} for `{row}`"
        for (experiment, row), found in by_name.items()
        if experiment == "cifar10-edges" and (plain := by_name.get(("cifar10", row)))
    ]
    ours = f"Ours, in points: {', '.join(gains)}." if gains else "No row of ours has both runs yet."
    return f"The paper has, in points of CIFAR10's accuracy, {REPORTED_GAINS}. {ours}"


REPORTED_GAINS = "2.33 for learned rows and 0.34 for fixed ones"
"""The paper's section on edge features has them in its text alone."""


def images_and_molecules(groups: Sequence[Group]) -> str:
    """The scores of PNA and of learned rows on each data set, and those that are missing."""
    lines = []
    for data in dict.fromkeys(group.experiment for group in groups):
        rows = {g.row: g for g in groups if g.experiment == data}
        there = [
            f"`{name}` {_score(rows[name]):.3f}"
            for name in ("pna", "gru", "binary-gru")
            if name in rows
        ]
        missing = [f"`{name}`" for name in ("pna", "gru", "binary-gru") if name not in rows]
        metric = rows[next(iter(rows))].finished[0].record.metrics
        measure = next(name for name in ("mae", "accuracy", "roc-auc") if f"{name}@test" in metric)
        rest = f"; not run: {', '.join(missing)}" if missing else ""
        lines.append(f"- {data}, test {measure}: {', '.join(there)}{rest}")
    return "\n".join(lines)


def _score(group: Group) -> float:
    measures = [key for key in group.finished[0].record.metrics if key.endswith("@test")]
    found = group.metric(measures[0])
    return 0.0 if found is None else found.mean


def _loss_of(group: Group) -> str:
    weight = group.finished[0].record.recipe["aggregator"]["options"].get("associativity")
    if weight is None:  # the paper's own
        weight = 1.0 if group.row == "binary-gru-assoc" else 0.0
    return f"with λ = {weight:g}" if weight else "without the loss"


def _mean(found: Stat | None) -> str:
    return "–" if found is None else f"{found.mean:.3f}"


def _seeds(group: Group) -> str:
    return f"{len(group.finished)} seed{'s' * (len(group.finished) > 1)}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


SENTENCES = {
    "loss far out": MadeSentences(("second-minimum-associativity",), loss_far_out),
    "depth drops": MadeSentences(("second-minimum-associativity",), depth_drops),
    "depth drops as published": MadeSentences(("second-minimum",), depth_drops),
    "rise and fall": MadeSentences(("second-minimum",), rise_and_fall),
    "edge features": MadeSentences(("cifar10", "cifar10-edges"), edge_features),
    "images and molecules": MadeSentences(REAL, images_and_molecules),
    "paper against itself": MadeSentences(("second-minimum",), paper_against_itself),
    "regularised beside plain": MadeSentences(("second-minimum",), regularised_beside_plain),
    "course of associativity": MadeSentences(("second-minimum",), course_of_associativity),
    "first of equal epochs": MadeSentences(
        ("second-minimum", "second-minimum-lambda", "generalisation"), first_of_equals
    ),
    "tree beside chain": MadeSentences(("set-speed",), tree_beside_chain),
}
