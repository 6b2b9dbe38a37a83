"""The tables that README and docs quote from records: a column is a head and what it says of a row.

A row is a group of runs that differ in their seeds alone.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from made_sentences import REAL

from treefold.lab.experiments.catalogue import find_experiment
from treefold.lab.report.names import LEARNED, STYLES, style_of
from treefold.lab.runs import Group, Run, Stat, num_steps
from treefold.lab.tasks.multitask.targets import TRAIN_SIZES

Address = Callable[[Group], str]
"""The address of the records of a group."""
Columns = list[tuple[str, Callable[[Group], str]]]
NONE = "–"


@dataclass(frozen=True)
class MadeTable:
    """The runs of some experiments; columns depend on what there is to show."""

    experiments: tuple[str, ...]
    columns: Callable[[Sequence[Group]], Columns]
    timed: bool = False
    """True if it shows times: then it is one table for each machine, by name."""
    head: str = "aggregator"
    """The head of the first column, of rows."""

    def lines(self, groups: Sequence[Group], address: Address) -> list[str]:
        """The table in Markdown, each row with a link to its records."""
        if not self.timed:
            return self._table(groups, address)
        found: list[str] = []
        machines: dict[str, list[Group]] = {}
        for group in groups:
            machines.setdefault(group.finished[0].machine, []).append(group)
        for machine, part in machines.items():
            found += [f"On {machine}:", "", *self._table(part, address), ""]
        return found[:-1]

    def _table(self, groups: Sequence[Group], address: Address) -> list[str]:
        columns = self.columns(groups)
        heads = [self.head, *(head for head, _ in columns)]
        found = [_line(heads), "|---" * len(heads) + "|"]
        for group in groups:
            name = f"[`{group.row}`]({address(group)})"
            found.append(_line([name, *(cell(group) for _, cell in columns)]))
        return found


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def ours(metric: str, digits: int) -> Callable[[Group], str]:
    """The mean over seeds, with their standard deviation where there are several."""

    def cell(group: Group) -> str:
        return _text(group.metric(metric), digits)

    return cell


def paper(metric: str, digits: int) -> Callable[[Group], str]:
    """The published number."""

    def cell(group: Group) -> str:
        return _text(group.reported(metric), digits)

    return cell


def _text(found: Stat | None, digits: int) -> str:
    return found.text(digits).replace("−", "-") if found else NONE


def seeds(group: Group) -> str:
    """The number of runs."""
    return str(len(group.finished))


def epochs(group: Group) -> str:
    """The number of epochs they really had."""
    return ", ".join(sorted({f"{run.record.epochs:,}" for run in group.finished}))


def steps(group: Group) -> str:
    """The number of steps of the optimiser they really had."""
    found = {_steps(run.record.recipe, run.record.epochs, run) for run in group.finished}
    return ", ".join(f"{number:,}" for number in sorted(found))


def steps_beside_paper(group: Group) -> str:
    """The steps, and in brackets the most that the published recipe of the row has."""
    if not group.finished[0].record.reported:
        return f"{steps(group)} ({NONE})"
    (paper,) = find_experiment(group.finished[0].record.name, "paper")
    return f"{steps(group)} ({_steps(paper.recipe(), paper.training.epochs):,})"


def _steps(recipe: dict[str, Any], num_epochs: int, run: Run | None = None) -> int:
    task, training = recipe["task"], recipe["training"]
    num_train, batch_size = task.get("num_train"), training["batch_size"]
    if num_train is None and run is not None:  # of real graphs only the record knows
        num_train = run.record.metrics["num_graphs"]["train"]
    if task["name"] == "multi-task" and not training.get("mixed_sizes"):
        sizes = len(TRAIN_SIZES)  # each batch has graphs of one size
        return num_epochs * sizes * num_steps(num_train // sizes, batch_size)
    return num_epochs * num_steps(num_train, batch_size)


def changed(group: Group) -> str:
    """The changes of the command line in the preset, by the last word of each name."""
    changes = group.finished[0].record.overrides.items()
    return ", ".join(f"`{key.rpartition('.')[2]}={value}`" for key, value in changes) or NONE


UNIFORM = {"1..16": "accuracy@1-16", "32": "accuracy@32", "200": "accuracy@200"}
BALANCED = {f"balanced {size:,}": f"accuracy@balanced-{size}" for size in (16, 200, 1000)}
LOG = "log10_mse@"


def accuracies(groups: Sequence[Group]) -> Columns:
    """Ours beside the paper's, by the size of sets."""
    columns: Columns = []
    for head, metric in UNIFORM.items():
        columns += [(head, ours(metric, 3)), ("paper", paper(metric, 3))]
    differ = len({epochs(group) for group in groups}) > 1
    columns.append(("epochs", epochs) if differ else ("seeds", seeds))
    return [*columns, ("steps (paper)", steps_beside_paper)]


def generalisation(groups: Sequence[Group]) -> Columns:
    """Accuracies on uniform and on balanced sets."""
    both = {**UNIFORM, **BALANCED}
    return [*((head, ours(metric, 3)) for head, metric in both.items()), ("seeds", seeds)]


def by_task(groups: Sequence[Group]) -> Columns:
    """Accuracies on uniform sets, for rows of several tasks."""
    accuracies = [(head, ours(metric, 3)) for head, metric in UNIFORM.items()]
    return [("task", lambda group: group.experiment), *accuracies, ("epochs", epochs)]


def certificates(groups: Sequence[Group]) -> Columns:
    """Tree certificates that hold, the states in them, and accuracies on the largest sets."""

    def proofs(group: Group) -> list[dict[str, Any]]:
        files = [run.folder / "certificate-tree.json" for run in group.finished]
        return [json.loads(file.read_text()) for file in files if file.exists()]

    def holding(group: Group) -> str:
        return f"{sum(proof['holds'] for proof in proofs(group))} of {len(group.finished)}"

    def counted(name: str) -> Callable[[Group], str]:
        def cell(group: Group) -> str:
            found = sorted({proof[name] for proof in proofs(group)})
            return (
                "..".join(f"{count:,}" for count in dict.fromkeys(found[:1] + found[-1:])) or NONE
            )

        return cell

    sizes = {"200": UNIFORM["200"], "balanced 1,000": BALANCED["balanced 1,000"]}
    return [
        ("tree certificates", holding),
        ("states", counted("elements")),
        ("needed", counted("classes")),
        *((head, ours(metric, 3)) for head, metric in sizes.items()),
        ("epochs", epochs),
    ]


def seconds(groups: Sequence[Group]) -> Columns:
    """Seconds per epoch by the size of sets."""

    by_size = "seconds_per_epoch_by_size"

    def at(size: int) -> Callable[[Group], str]:
        return lambda group: f"{group.by_size(by_size)[size].mean:.0f}"

    sizes = sorted({size for group in groups for size in group.by_size(by_size)})
    columns: Columns = [(f"sets of {size}", at(size)) for size in sizes]
    differ = len({changed(group) for group in groups}) > 1
    return [("changed", changed), *columns] if differ else columns


def errors(groups: Sequence[Group]) -> Columns:
    """log10 of squared errors, the paper's in brackets: the average, then each task."""

    def both(metric: str) -> Callable[[Group], str]:
        return lambda group: f"{ours(metric, 2)(group)} ({paper(metric, 2)(group)})"

    metrics = [name for name in groups[0].finished[0].record.metrics if name.startswith(LOG)]
    heads = [name.removeprefix(LOG).replace("-", " ") for name in metrics]
    columns = zip(heads, map(both, metrics), strict=True)
    return [*columns, ("epochs", epochs), ("steps (paper)", steps_beside_paper)]


RATIO_SPLITS = ("test", *(f"extrapolation-{sizes}" for sizes in ("20-24", "45-49", "95-99")))


def ratios(groups: Sequence[Group]) -> Columns:
    """log10 of errors to those of a constant answer, by the size of graphs."""

    def at(split: str) -> Callable[[Group], str]:
        return lambda group: f"{_only(group).record.metrics['log10_ratio'][split]:.2f}"

    heads = ("15..19", *(split.removeprefix("extrapolation-") for split in RATIO_SPLITS[1:]))
    by_size = zip(heads, map(at, RATIO_SPLITS), strict=True)
    return [*((head.replace("-", ".."), cell) for head, cell in by_size), ("epochs", epochs)]


def _only(group: Group) -> Run:
    (run,) = group.finished
    return run


def real_scores(groups: Sequence[Group]) -> Columns:
    """The measure of each data set on validation and test graphs."""

    def measure(group: Group) -> str:
        names = group.finished[0].record.metrics
        return next(name.partition("@")[0] for name in names if name.endswith("@test"))

    return [
        ("data", lambda group: group.experiment),
        ("measure", measure),
        ("validation", lambda group: ours(f"validation_{measure(group)}", 3)(group)),
        ("test", lambda group: ours(f"{measure(group)}@test", 3)(group)),
        ("test, last epoch", lambda group: ours(f"{measure(group)}@test-last", 3)(group)),
        ("published", lambda group: paper(f"{measure(group)}@test", 3)(group)),
        ("epochs", epochs),
        ("steps", steps),
    ]


class MadeChoice(MadeTable):
    """An aggregator a row, a question a column: what was measured of it."""

    def lines(self, groups: Sequence[Group], address: Address) -> list[str]:
        """The table in Markdown; networks around one aggregator stand for it."""
        found: dict[str, dict[str, str]] = {}
        for group in groups:
            for head, (experiment, variant, metric, digits) in QUESTIONS.items():
                if (group.experiment, group.variant) == (experiment, variant):
                    row = {"pna-16": "pna"}.get(group.row, group.row.removeprefix("mpnn-"))
                    if score := group.metric(metric):
                        words = f"{score.mean:.{digits}f}".replace("−", "-")
                        found.setdefault(row, {}).setdefault(head, f"[{words}]({address(group)})")
        rows = [row for row in STYLES if len(found.get(row, {})) > 1]
        lines = [_line(["aggregator", *QUESTIONS]), "|---" * (len(QUESTIONS) + 1) + "|"]
        return lines + [
            _line([f"`{row}`", *(found[row].get(head, NONE) for head in QUESTIONS)]) for row in rows
        ]


QUESTIONS = {
    "second smallest, sets of 200 (accuracy)": ("second-minimum", "standard", "accuracy@200", 3),
    "sets of 1,000, all answers as likely": (
        *("second-minimum", "standard", "accuracy@balanced-1000", 3),
    ),
    "six properties of random graphs (log₁₀ error)": (
        *("multi-task", "quick", "log10_mse@average", 2),
    ),
    "ZINC with edges (error)": ("zinc-edges", "quick", "mae@test", 3),
    "MolHIV (ROC-AUC)": ("molhiv", "quick", "roc-auc@test", 3),
    "seconds per epoch, sets of 200": ("set-speed", "paper", "seconds_per_epoch@200", 0),
}


class MadeOrder(MadeTable):
    """A sentence: for how many pairs every learned aggregator is below every single fixed one."""

    def lines(self, groups: Sequence[Group], address: Address) -> list[str]:
        """The sentence, on the paper's own rows."""
        metric = f"{LOG}average"
        told = [(g, g.metric(metric).mean) for g in groups if g.reported(metric)]
        learned = [mean for g, mean in told if style_of(g).kind in LEARNED]
        single = [(style_of(g), mean) for g, mean in told if "PNA" not in style_of(g).label]
        fixed = [mean for style, mean in single if style.kind == "fixed"]
        holds = sum(ours < theirs for ours in learned for theirs in fixed)
        return [
            "The paper's order, every learned aggregator below every single fixed one, holds here "
            f"for {holds} of {len(learned) * len(fixed)} pairs."
        ]


TABLES = {
    "second-minimum": MadeTable(("second-minimum",), accuracies),
    "second-minimum-lambda": MadeTable(("second-minimum-lambda",), generalisation),
    "second-minimum-associativity": MadeTable(("second-minimum-associativity",), generalisation),
    "generalisation": MadeTable(("second-minimum", "generalisation"), generalisation),
    "other set tasks": MadeTable(("parity", "count-modulo", "mode", "xor"), by_task),
    "set-speed": MadeTable(("set-speed",), seconds, timed=True),
    "multi-task": MadeTable(("multi-task",), errors),
    "multi-task by size": MadeTable(("multi-task",), ratios),
    "real graphs": MadeTable(REAL, real_scores),
    "finite": MadeTable(("finite",), certificates, head="task"),
    "finite ideas": MadeTable(("finite-ideas",), certificates, head="row"),
    "choice": MadeChoice(
        ("second-minimum", "multi-task", "zinc-edges", "molhiv", "set-speed"), errors
    ),
    "order": MadeOrder(("multi-task",), errors),
}
