"""The tables that README and docs quote from records: a column is a head and what it says of a row.

A row is a group of runs that differ in their seeds alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from treefold.lab.report.runs import Group, Stat
from treefold.lab.report.sections import LEARNED

Address = Callable[[Group], str]
"""Where a reader finds the records of a group."""
Columns = list[tuple[str, Callable[[Group], str]]]
NONE = "–"


@dataclass(frozen=True)
class MadeTable:
    """The runs of some experiments; columns depend on what there is to show."""

    experiments: tuple[str, ...]
    columns: Callable[[Sequence[Group]], Columns]

    def lines(self, groups: Sequence[Group], address: Address) -> list[str]:
        """The table in Markdown, each row with a link to its records."""
        columns = self.columns(groups)
        heads = ["aggregator", *(head for head, _ in columns)]
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
    """What was published."""

    def cell(group: Group) -> str:
        return _text(group.reported(metric), digits)

    return cell


def _text(found: Stat | None, digits: int) -> str:
    return found.text(digits).replace("−", "-") if found else NONE


def seeds(group: Group) -> str:
    """How many runs."""
    return str(len(group.finished))


def epochs(group: Group) -> str:
    """How many epochs they really had."""
    return ", ".join(sorted({f"{run.record.epochs:,}" for run in group.finished}))


def changed(group: Group) -> str:
    """What the command line changed in the preset, by the last word of each name."""
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
    return [*columns, ("epochs", epochs) if differ else ("seeds", seeds)]


def generalisation(groups: Sequence[Group]) -> Columns:
    """Accuracies on uniform and on balanced sets."""
    both = {**UNIFORM, **BALANCED}
    return [*((head, ours(metric, 3)) for head, metric in both.items()), ("seeds", seeds)]


def by_task(groups: Sequence[Group]) -> Columns:
    """Accuracies on uniform sets, for rows of several tasks."""
    accuracies = [(head, ours(metric, 3)) for head, metric in UNIFORM.items()]
    return [("task", lambda group: group.experiment), *accuracies, ("epochs", epochs)]


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
    return [*zip(heads, map(both, metrics), strict=True), ("epochs", epochs)]


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
    ]


class MadeOrder(MadeTable):
    """A sentence: for how many pairs every learned aggregator is below every single fixed one."""

    def lines(self, groups: Sequence[Group], address: Address) -> list[str]:
        """The sentence, on the paper's own rows."""
        metric = f"{LOG}average"
        told = [(g, g.metric(metric).mean) for g in groups if g.reported(metric)]
        learned = [mean for g, mean in told if g.style.kind in LEARNED]
        fixed = [mean for g, mean in told if g.style.kind == "fixed" and "PNA" not in g.style.label]
        holds = sum(ours < theirs for ours in learned for theirs in fixed)
        return [
            "The paper's order, every learned aggregator below every single fixed one, holds here "
            f"for {holds} of {len(learned) * len(fixed)} pairs."
        ]


REAL = tuple(
    name + edges for name in ("zinc", "molhiv", "mnist", "cifar10") for edges in ("", "-edges")
)
TABLES = {
    "second-minimum": MadeTable(("second-minimum",), accuracies),
    "second-minimum-lambda": MadeTable(("second-minimum-lambda",), generalisation),
    "generalisation": MadeTable(("second-minimum", "generalisation"), generalisation),
    "other set tasks": MadeTable(("parity", "count-modulo", "mode", "xor"), by_task),
    "set-speed": MadeTable(("set-speed",), seconds),
    "multi-task": MadeTable(("multi-task",), errors),
    "real graphs": MadeTable(REAL, real_scores),
    "order": MadeOrder(("multi-task",), errors),
}
