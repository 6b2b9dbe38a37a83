"""The sentences that pages quote from records: what is counted or compared is never typed.

A sentence is made from groups of finished runs, as a table is.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from treefold.lab.experiments.sets import REPORTED_IN_TEXT
from treefold.lab.runs import Group, Run
from treefold.lab.tasks import best_constant

LAW = "law:associativity"
SECONDS = "seconds_per_epoch_by_size"
WIDTH = 110


@dataclass(frozen=True)
class MadeSentences:
    """The runs of some experiments, and what is said of them."""

    experiments: tuple[str, ...]
    said: Callable[[Sequence[Group]], str]

    def lines(self, groups: Sequence[Group]) -> list[str]:
        """What is said, in lines; an item of a list is a line of its own."""
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
    """Where the violation begins, where its peak is, and where it ends, in each run."""
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
    """Where the paper's table has one number and its text another."""
    return " ".join(
        f"Of `{row}` at {metric.partition('@')[2]} the paper has {table.mean:.3f} ± "
        f"{table.deviation:.3f} in its table, as here, and {text.value:.3f} ± {text.spread:.3f} in "
        "its text."
        for row, numbers in REPORTED_IN_TEXT.items()
        for metric, text in numbers.items()
        if (table := row_of(groups, row).reported(metric))
    )


SENTENCES = {
    "paper against itself": MadeSentences(("second-minimum",), paper_against_itself),
    "regularised beside plain": MadeSentences(("second-minimum",), regularised_beside_plain),
    "course of associativity": MadeSentences(("second-minimum",), course_of_associativity),
    "first of equal epochs": MadeSentences(
        ("second-minimum", "second-minimum-lambda", "generalisation"), first_of_equals
    ),
    "tree beside chain": MadeSentences(("set-speed",), tree_beside_chain),
}
