"""The aggregator to pick, and why: the paper's advice to practitioners, checked on these runs."""

import math
from collections.abc import Sequence

from treefold.lab.compare.results import Result, Results
from treefold.lab.report import (
    Link,
    Paragraph,
    Spread,
    Text,
    counted,
    joined,
    listed,
    mean_and_deviation,
)

FEW_ANSWERS = 200
"""Fewer answers than this in validation or test are called few."""
UNLAWFUL = 0.05
"""A mean relative violation above this is called large."""


def pick(results: Results) -> Result:
    """The fastest of those that are not clearly worse than the best on validation."""
    rivals = results.rivals(results.ranked[0])
    return min(rivals, key=lambda row: row.epoch_seconds.mean)


def advice(results: Results) -> list[Paragraph]:
    """The choice with its reason, then what was measured for each piece of the paper's advice."""
    points = [
        _fixed(results),
        _learned_against_fixed(results),
        _recurrent_against_monoids(results),
        _overfitting(results),
        _laws(results),
    ]
    found = tuple(point for point in points if point)
    opening: Text = ("The paper's advice to practitioners (its conclusions), asked of these runs:",)
    cautions = _cautions(results)
    return [
        Paragraph(_choice(results)),
        *([Paragraph(opening, found)] if found else []),
        *([Paragraph(joined(cautions))] if cautions else []),
    ]


def _choice(results: Results) -> Text:
    best, chosen = results.ranked[0], pick(results)
    head: Text = ("Pick ", Link(chosen.label, chosen.group.anchor, strong=True), ": ")
    if chosen is best:
        rivals = [row for row in results.rivals(best) if row is not best]
        clear = f", not clearly better than {_names(rivals)} but faster"
        reason = f"its validation {_score(results, best.val)} is the best{clear if rivals else ''}."
    else:
        times = best.epoch_seconds.mean / chosen.epoch_seconds.mean
        reason = (
            f"its validation {_score(results, chosen.val)} is not clearly worse than the best, "
            f"{mean_and_deviation(best.val)} of {best.label}, and of all that are not it is the "
            f"fastest: {chosen.epoch_seconds.mean:.3g} s per epoch, {best.label} takes "
            f"{times:.1f} times as long."
        )
    return (*head, reason, f" On the test it has {_score(results, chosen.test)}.")


def _fixed(results: Results) -> Text | None:
    fixed = [row for row in results.ranked if row.fixed]
    if len(fixed) < 2:
        return None
    best, rest = fixed[0], fixed[1:]
    worse = [row for row in rest if results.clearly_better(best.val, row.val)]
    equal = [row for row in rest if row not in worse]
    words = f"Of the fixed aggregators {best.label} is best on validation ({_mean(best.val)})"
    words += f", clearly ahead of {_names(worse)}" if worse else ""
    words += f", and not clearly ahead of {_names(equal)}" if equal else ""
    return (f"Choosing a fixed aggregator. {words}.",)


def _learned_against_fixed(results: Results) -> Text | None:
    fixed = [row for row in results.ranked if row.fixed]
    learned = [row for row in results.ranked if not row.fixed]
    if not fixed or not learned:
        return None
    ours, theirs = learned[0], fixed[0]
    numbers = f"{ours.label} {_mean(ours.val)}, {theirs.label} {_mean(theirs.val)} on validation"
    if results.clearly_better(ours.val, theirs.val):
        verdict = "the best learned one is clearly better: no fixed one fits what is asked here"
    elif results.clearly_better(theirs.val, ours.val):
        verdict = "the best fixed one is clearly better: what is asked here fits it"
    else:
        verdict = "no clear difference between the best learned and the best fixed one"
    return (f"Learned or fixed. {verdict.capitalize()} ({numbers}).",)


def _recurrent_against_monoids(results: Results) -> Text | None:
    chains = [row for row in results.ranked if row.style.kind == "recurrent"]
    trees = [row for row in results.ranked if row.style.kind == "LCM"]
    if not chains or not trees:
        return None
    chain, tree = chains[0], trees[0]
    if results.clearly_better(chain.val, tree.val):
        verdict = f"{chain.label} is clearly better"
    elif results.clearly_better(tree.val, chain.val):
        verdict = f"{tree.label} is clearly better"
    else:
        verdict = "no clear difference in validation"
    times = chain.epoch_seconds.mean / tree.epoch_seconds.mean
    largest = int(results.facts["largest_neighbourhood"])
    return (
        f"Recurrent or monoid. {chain.label} {_mean(chain.val)}, {tree.label} {_mean(tree.val)}: "
        f"{verdict}. An epoch of {chain.label} takes {times:.2g} times that of {tree.label}. The "
        f"largest neighbourhood has {largest:,} messages: {largest:,} steps one after the other "
        f"for a recurrent one, {math.ceil(math.log2(max(largest, 1)))} for a tree.",
    )


def _overfitting(results: Results) -> Text | None:
    learned = [row for row in results.ranked if not row.fixed]
    if not learned:
        return None
    gaps = {row.label: results.gain(row.train.mean - row.test.mean) for row in learned}
    worst = max(gaps, key=lambda label: gaps[label])
    words = (
        f"Overfitting. Of the learned ones {worst} loses most from train to test "
        f"({gaps[worst]:.3f} {results.metric})"
        if gaps[worst] > 0
        else "Overfitting. No learned one is worse on the test than on train"
    )
    plain, bound = (_named(results, row) for row in ("binary-gru", "binary-gru-assoc"))
    if plain is None or bound is None:
        hint = "; add binary-gru-assoc to see whether a law loss helps" if plain else ""
        return (f"{words}{hint}.",)
    if results.clearly_better(bound.test, plain.test):
        effect = "helps clearly"
    elif results.clearly_better(plain.test, bound.test):
        effect = "hurts clearly"
    else:
        effect = "makes no clear difference"
    return (
        f"{words}. Pulling Binary-GRU towards associativity {effect} on the test: "
        f"{_mean(plain.test)} without, {_mean(bound.test)} with.",
    )


def _laws(results: Results) -> Text | None:
    broken = [
        f"{row.label} ({law} off by {spread.mean:.2g})"
        for row in results.ranked
        for law, spread in row.laws.items()
        if spread.mean > UNLAWFUL and law in ("associativity", "commutativity", "swap")
    ]
    if not broken:
        return None
    return (
        f"Laws. These answer differently when their rows come in another order or bracketing: "
        f"{listed(broken)}.",
    )


def _cautions(results: Results) -> list[Text]:
    found: list[Text] = []
    single = [row for row in results.rows if row.val.count == 1]
    if single:
        whose = "" if len(single) == len(results.rows) else f" for {_names(single)}"
        found.append((f"One seed only{whose}: chance may have chosen; use --seeds 3 or more.",))
    few = [name for name in ("val", "test") if results.facts["answers"][name] < FEW_ANSWERS]
    for name in few:
        count = results.facts["answers"][name]
        found.append((f"{name} has only {counted(count, 'answer')}: its scores are rough.",))
    best = results.ranked[0]
    if results.constant is not None:
        lead = results.gain(best.test.mean) - results.gain(results.constant.mean)
        if lead <= 2 * (best.test.deviation or 0.0):
            found.append(
                (
                    f"{best.label} is {'hardly better' if lead > 0 else 'no better'} than a "
                    f"constant answer ({results.constant.mean:.3f}) on the test: the budget may be "
                    "too small, or there is nothing to learn here.",
                )
            )
    return found


def _named(results: Results, name: str) -> Result | None:
    return next((row for row in results.rows if row.group.row == name), None)


def _names(rows: Sequence[Result]) -> str:
    return listed([row.label for row in rows])


def _score(results: Results, spread: Spread) -> str:
    return f"{results.metric} of {mean_and_deviation(spread)}"


def _mean(spread: Spread) -> str:
    return mean_and_deviation(spread)
