"""The page of `treefold compare`: which aggregator to pick on somebody's graphs, and how sure."""

from pathlib import Path

from treefold.lab.experiments import Judgement, measure_of
from treefold.lab.report import figures
from treefold.lab.report.names import LEARNED, in_order, style_of
from treefold.lab.report.report import write_page
from treefold.lab.report.sections import Section, folded, unfinished
from treefold.lab.report.tables import Cell, Table, aggregators
from treefold.lab.runs import load_groups

_KINDS: dict[str, tuple[str, str, float]] = {
    "seconds_per_epoch": ("seconds per epoch", "{:,.3g}", 1),
    "step_memory": ("peak MB", "{:,.1f}", 1e6),
    "num_parameters": ("parameters", "{:,.0f}", 1),
}


def write_comparison(out: Path) -> Path:
    """Write `comparison.html` into a comparison's folder from its records, and say what to pick."""
    groups, damaged = load_groups(out)
    found = Judgement(groups := in_order(groups))
    parts = [*unfinished(groups, damaged), *folded(found.rows, groups)]
    scores = Section("Scores, time and memory", parts=parts)
    if found.rows:
        curve, notes = figures.training(found.rows), _notes(found)
        scores = scores._replace(headline=curve, tables=[_table(found)], notes=notes)
    about = (
        "{what} of {level}s: {num_graphs:,} graphs with {num_nodes:,} nodes. {said} Every "
        "aggregator sits in the same network and is trained for {budget}."
    )
    words = {"what": found.facts["kind"].capitalize(), "budget": groups[0].preset}
    about = about.format(**found.facts, said=" ".join(found.facts["notes"]), **words)
    title = f"Aggregators on {found.facts['name']}"
    return write_page(
        Section(title, about, _choice(found), parts=[scores]), out / "comparison.html"
    )


def _choice(found: Judgement) -> str:
    if not found.rows:
        return "No run is finished, so nothing can be said yet."
    chosen, best = found.pick(), found.rows[0]
    name, seeds, score = style_of(chosen).label, len(best.finished), found.score(best).text(3)
    measure = measure_of(found.metric).title
    if chosen is not best:
        words = f"{seeds} seeds cannot tell it from" if seeds > 1 else "it is as good as"
        times = f"which takes {found.seconds(best) / found.seconds(chosen):.1f} times as long"
        return f"Pick {name}: {words} {style_of(best).label} ({score} on validation), {times}."
    others = ", ".join(style_of(group).label for group in found.rivals if group is not chosen)
    sure = f"; {seeds} seeds cannot tell {others} from it, but it is the fastest" if others else ""
    sure = sure or (f", clearly over {seeds} seeds" if seeds > 1 and found.rows[1:] else "")
    return f"Pick {name}: it is best on validation, with {measure} {score}{sure}."


def _notes(found: Judgement) -> list[str]:
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
    if any(len(group.finished) < 2 for group in found.rows):
        notes.append("One seed cannot tell luck from merit: use --seeds 3 or more.")
    if late := ", ".join(style_of(group).label for group in found.rows if found.rising(group)):
        notes.append(f"Still getting better at the end: {late}. More epochs may change the order.")
    if min(answers["val"], answers["test"]) < 200:
        few = "Only {val} answers in validation and {test} in the test: scores are rough."
        notes.append(few.format(**answers))
    if constant and found.sign * (test.mean - constant.mean) <= 2 * (test.deviation or 0):
        notes.append("Hardly anything was learned: a constant answer is about as good.")
    return notes


def _table(found: Judgement) -> Table:
    columns = aggregators(found.rows)
    for split, head in (("val", "validation"), ("test", "test"), ("train", "train")):
        scores = [found.score(group, split) for group in found.rows]
        ranges = [f"{s.low:.3f}–{s.high:.3f}" if s.low < s.high else "" for s in scores]
        cells = zip(scores, ranges, strict=True)
        columns[head] = [Cell(f"{score.mean:.3f}", words) for score, words in cells]
    told = ["not told apart" if group in found.rivals else "worse" for group in found.rows]
    columns["next to the best"] = [Cell(words) for words in ("the best", *told[1:])]
    machines = sorted({run.machine for group in found.rows for run in group.finished})
    names = sorted({name for g in found.rows for run in g.finished for name in run.record.metrics})
    laws = {name: (f"violation of {name[4:]}", "{:.2g}", 1) for name in names if "law:" in name}
    for name, (head, shape, unit) in {**_KINDS, **laws}.items():
        values = [group.metric(name) for group in found.rows]
        if name != "seconds_per_epoch" or len(machines) == 1:
            columns[head] = [Cell(shape.format(v.mean / unit) if v else "") for v in values]
    measure = measure_of(found.metric)
    note = f"{measure.title} {measure.arrow}, with its range over seeds. Told apart by a paired "
    note += f"t-test over seeds, at 95 %. Measured on {'; '.join(machines)}."
    return Table("Scores", columns, note, 6)
