"""Measured numbers in prose: where they stand, and whether their source has them.

A page says what was measured between `<!-- measured: SOURCE, ... -->` and `<!-- end -->`. A source
is a record or a folder of records, a page of benchmarks, or `this page`, which is what its own
snippets print. Outside of such blocks a page has no fractions, percentages or times.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

MEASURED = re.compile(r"<!-- measured: ([^>]+?) -->\n(.*?)<!-- end -->", re.DOTALL)
MADE = re.compile(r"<!-- made: [^>]+? -->\n.*?<!-- end -->", re.DOTALL)
# Snippets, code, formulas, link targets and comments are no prose; nor are names with numbers.
NOT_PROSE = re.compile(
    r"^```.*?^```|^    .*?$|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)]*\)|<!--.*?-->|"
    r"Python 3\.\d+|Apache-2\.0|\w+://\S+",
    re.DOTALL | re.MULTILINE,
)
# A sign does not count; the end of a range such as 1-16 is no number of its own.
BEGIN, WHOLE = r"(?<![\w.,])(?<!\w-)", r"\d+(?:,\d{3})*"
NUMBER = re.compile(rf"{BEGIN}{WHOLE}(?:\.\d+)?(?![\w^])")
UNIT = r"(?:%|[kMG]i?B|[mµ]s|seconds?|minutes?|hours?|h|min|s|times|x)\b|[%×]"
CLAIM = re.compile(rf"{BEGIN}(?:{WHOLE}\.\d+|\.\d+|\d+e-?\d+|\d+ of \d+|{WHOLE}(?= ?(?:{UNIT})))")
WORD = re.compile(r"[A-Za-z]{3,}")
SHARE = re.compile(r"\b\d+ of \d+\b")


class Unit(NamedTuple):
    """Numbers that belong together, and the words they stand among."""

    numbers: set[float]
    words: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    """A count such as `9 of 15`."""


def prose(text: str) -> str:
    """The text without what is not prose."""
    return NOT_PROSE.sub(" ", text)


def stray_claims(text: str) -> list[str]:
    """Numbers that look measured and stand outside of a block that says where from."""
    return CLAIM.findall(prose(MADE.sub(" ", MEASURED.sub(" ", text))))


def same(quoted: str, number: float) -> bool:
    """Return True if `number`, rounded as far as `quoted` is, is what was quoted."""
    plain = quoted.replace(",", "")
    digits = len(plain.partition(".")[2])
    if not digits and len(plain) > 2:  # 1,500 for 1,506: as many digits as are not zero
        digits = len(plain.rstrip("0")) - len(plain)
    return abs(round(abs(number), digits) - float(plain)) < 1e-9


def missing(block: str, units: Sequence[Unit]) -> list[str]:
    """The numbers of a block that its sources do not have.

    Those of a row of a table must be found together, in one record, or in one line of a page, which
    is one of those that share the most words with the row. What is `9 of 15` must be so there.
    """
    lines = prose(block).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    rest = _numbers("\n".join(line for line in lines if not line.startswith("|")))
    wrong = [word for word in rest if not any(_has(unit, word) for unit in units)]
    said = {share for unit in units for share in unit.shares}
    wrong += [share for share in SHARE.findall(prose(block)) if share not in said]
    for row in rows:
        numbers, words = _numbers(row), _words(row)
        likest = max((len(words & unit.words) for unit in units), default=0)
        meant = [unit for unit in units if len(words & unit.words) == likest]
        left = [[word for word in numbers if not _has(unit, word)] for unit in meant]
        wrong += min(left, key=len, default=numbers)
    return wrong


def _numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in WORD.findall(text))


def _has(unit: Unit, word: str) -> bool:
    return any(same(word, number) for number in unit.numbers)


def units_in(source: Path) -> list[Unit]:
    """Parts of a source that belong together: a line of a page, a record, means over seeds."""
    if source.suffix == ".md":
        return units_of_text(source.read_text())
    files = [source] if source.suffix == ".json" else sorted(source.rglob("record.json"))
    if not files:
        raise ValueError(f"{source} holds no records")
    by_recipe = defaultdict(list)
    for file in files:
        record = json.loads(file.read_text())
        kept = {key: record[key] for key in ("metrics", "reported", "recipe", "epochs", "seconds")}
        by_recipe[record["name"], record["preset"]].append(list(_leaves(kept)))
    each = [{n for _, n in leaves} for group in by_recipe.values() for leaves in group]
    return [Unit(numbers) for numbers in (*each, *map(_means, by_recipe.values()))]


def units_of_text(text: str) -> list[Unit]:
    """The numbers in each line, however they are written."""
    found = {line: re.findall(rf"{WHOLE}(?:\.\d+)?", line) for line in text.splitlines()}
    return [
        Unit(
            {float(number.replace(",", "")) for number in numbers},
            _words(line),
            frozenset(SHARE.findall(line)),
        )
        for line, numbers in found.items()
        if numbers
    ]


def _means(runs: Sequence[list[tuple[str, float]]]) -> set[float]:
    by_place: dict[str, list[float]] = defaultdict(list)
    for place, number in (leaf for run in runs for leaf in run):
        by_place[place].append(number)
    return {len(runs), *map(mean, by_place.values())}


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}/{key}")
            yield from ((place, float(key)) for _ in range(key.isdecimal()))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, place)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, float(value)
