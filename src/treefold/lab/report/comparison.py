"""The page of `treefold compare`: which aggregator to pick on somebody's graphs, and how sure."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from treefold.lab.report import figures, tables
from treefold.lab.report.names import LEARNED, in_order, style_of
from treefold.lab.report.report import write_page
from treefold.lab.report.sections import Section, folded, unfinished
from treefold.lab.report.tables import Cell, Column, Table
from treefold.lab.runs import Group, Stat, load_groups

STUDENT = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t at 95 %, by the number of pairs beyond two; for more pairs, the last."""
FEW_ANSWERS = 200


def facts_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about the graphs, from a recipe of today or of an earlier treefold."""
    found = recipe.get("dataset") or recipe.get("task", {}).get("facts")
    if not isinstance(found, dict):
        raise ValueError("the folder holds runs that are no comparison; use `treefold report`")
    return found


class Comparison:
    """The groups of one comparison that have results, best validation first.

    Validation chooses, the test only judges. Two differ if a paired test over seeds is sure of it.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self.facts = facts_of(groups[0].runs[0].record.recipe)
        self.metric = str(self.facts["metric"])
        self.measure = tables.measure_of(self.metric)
        rows = [group for group in groups if group.metric(f"{self.metric}@val")]
        self.rows = sorted(rows, key=lambda group: -self.gain(group))
        self.rivals = [group for group in self.rows if not self.sure(self.rows[0], group)]

    def score(self, group: Group, split: str = "val") -> Stat:
        """Its score on a split."""
        return group.metric(f"{self.metric}@{split}") or Stat(math.nan, math.nan, math.nan)

    def gain(self, group: Group, split: str = "val") -> float:
        """Its score on a split, turned such that more is better."""
        return self.turned(self.score(group, split))

    def turned(self, found: Stat) -> float:
        """A score, turned such that more is better."""
        return found.mean if self.measure.highest else -found.mean

    def sure(self, one: Group, other: Group) -> bool:
        """Return if one is better by more than chance between seeds, or an answer or two, makes.

        One seed knows nothing of chance: then any difference counts.
        """
        name, sign = f"{self.metric}@val", 1 if self.measure.highest else -1
        a, b = ({r.record.seed: r.record.metrics[name] for r in g.finished} for g in (one, other))
        pairs = [sign * (a[seed] - b[seed]) for seed in a if seed in b]
        if len(pairs) < 2:
            return self.gain(one) > self.gain(other)
        error = statistics.stdev(pairs) / math.sqrt(len(pairs))
        two = 2 / min(self.facts["answers"].values()) if self.metric == "accuracy" else 0.0
        return bool(statistics.fmean(pairs) > max(STUDENT[min(len(pairs), 10) - 2] * error, two))

    def pick(self) -> Group:
        """Of those that are not clearly worse than the best, the fastest."""
        return min(self.rivals, key=_seconds)


def _seconds(group: Group) -> float:
    return (group.metric("seconds_per_epoch") or Stat(math.inf, 0, 0)).mean


def write_comparison(out: Path) -> Path:
    """Write `comparison.html` into a comparison's folder from its records, and say what to pick."""
    groups, damaged = load_groups(out)
    groups = in_order(groups)
    recipes = [group.runs[0].record.recipe for group in groups]
    alike = [json.dumps([facts_of(r), r.get("model"), r.get("training")]) for r in recipes]
    if len(set(alike)) != 1:
        raise ValueError(
            f"the folder holds runs of {len(set(alike))} comparisons; expected one: give another "
            "--out, or remove what does not belong"
        )
    found = Comparison(groups)
    facts, missing = found.facts, unfinished(groups)
    missing = Section("Runs without results", items=[*missing.items, *damaged])
    scores = Section("Scores, time and memory", parts=[missing, *folded(found.rows, groups)])
    if found.rows:
        curve, notes = figures.training(found.rows), _notes(found)
        scores = scores._replace(headline=curve, tables=[_table(found)], notes=notes)
    about = (
        f"{facts['kind'].capitalize()} of {facts['level']}s: {facts['num_graphs']:,} graphs with "
        f"{facts['num_nodes']:,} nodes. {' '.join(facts['notes'])} Every aggregator sits in the "
        f"same network and is trained for {groups[0].preset}."
    )
    page = Section(f"Aggregators on {facts['name']}", about, _choice(found), parts=[scores])
    return write_page(page, out / "comparison.html")


def _choice(found: Comparison) -> str:
    if not found.rows:
        return "No run is finished, so nothing can be said yet."
    chosen, best = found.pick(), found.rows[0]
    name, seeds, score = style_of(chosen).label, len(best.finished), found.score(best).text(3)
    if chosen is not best:
        words = f"{seeds} seeds cannot tell it from" if seeds > 1 else "it is as good as"
        times = f"which takes {_seconds(best) / _seconds(chosen):.1f} times as long"
        return f"Pick {name}: {words} {style_of(best).label} ({score} on validation), {times}."
    others = ", ".join(style_of(group).label for group in found.rivals if group is not chosen)
    sure = f"; {seeds} seeds cannot tell {others} from it, but it is the fastest" if others else ""
    sure = sure or (f", clearly over {seeds} seeds" if seeds > 1 and found.rows[1:] else "")
    return f"Pick {name}: it is best on validation, with {found.measure.title} {score}{sure}."


def _notes(found: Comparison) -> list[str]:
    """The test, learned against fixed, and what makes the choice less sure."""
    chosen, answers = found.pick(), found.facts["answers"]
    test, constant = found.score(chosen, "test"), chosen.metric(f"constant_{found.metric}")
    notes = [f"On the test {style_of(chosen).label} has {test.text(3)}."]
    of_kind = {style_of(group).kind in LEARNED: group for group in reversed(found.rows)}
    if len(of_kind) == 2:
        learned, fixed = of_kind[True], of_kind[False]
        verdict = "is better than" if found.sure(learned, fixed) else "cannot be told from"
        verdict = "is worse than" if found.sure(fixed, learned) else verdict
        name = f"{style_of(learned).label}, the best learned one,"
        notes.append(f"{name} {verdict} {style_of(fixed).label}.")
    late = [r.record.metrics.get("best_epoch", 0) > 0.9 * r.record.epochs for r in chosen.finished]
    few = min(answers["val"], answers["test"])
    floor = found.turned(constant) + 2 * (test.deviation or 0) if constant else -math.inf
    doubts = {
        "One seed cannot tell luck from merit: use --seeds 3 or more.": any(
            len(group.finished) < 2 for group in found.rows
        ),
        "Validation was still getting better at the end: more epochs may help.": 2 * sum(late)
        > len(late),
        f"Only {answers['val']} answers in validation and {answers['test']} in the test: scores "
        "are rough.": few < FEW_ANSWERS,
        "Hardly anything was learned: a constant answer is about as good.": found.turned(test)
        <= floor,
    }
    return notes + [words for words, holds in doubts.items() if holds]


def _table(found: Comparison) -> Table:
    columns = [tables.names(found.rows)]
    for split, head in (("val", "validation"), ("test", "test"), ("train", "train")):
        scores = [found.score(group, split) for group in found.rows]
        ranges = [f"{s.low:.3f}–{s.high:.3f}" if s.low < s.high else "" for s in scores]
        cells = [Cell(f"{s.mean:.3f}", words) for s, words in zip(scores, ranges, strict=True)]
        columns.append(Column(head, cells))
    machines = {run.machine for group in found.rows for run in group.finished}
    kinds = {"seconds_per_epoch": ("seconds per epoch", "{:,.3g}", 1.0)}
    kinds = kinds if len(machines) == 1 else {}
    kinds["step_memory"] = "peak MB", "{:,.1f}", 1e6
    kinds["num_parameters"] = "parameters", "{:,.0f}", 1.0
    names = sorted({name for g in found.rows for run in g.finished for name in run.record.metrics})
    for law in (name for name in names if name.startswith("law:")):
        kinds[law] = f"violation of {law[4:]}", "{:.2g}", 1.0
    for name, (head, shape, unit) in kinds.items():
        values = [group.metric(name) for group in found.rows]
        columns.append(
            Column(head, [Cell(shape.format(v.mean / unit) if v else "") for v in values])
        )
    note = f"{found.measure.title} {found.measure.arrow}, with its range over seeds. Measured on "
    return Table("Scores", columns, note[0].upper() + note[1:] + "; ".join(sorted(machines)), 6)
