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

MEASURED = re.compile(r"<!-- measured: ([^>]+?) -->\n(.*?)<!-- end -->", re.DOTALL)
MADE = re.compile(r"<!-- made: [^>]+? -->\n.*?<!-- end -->", re.DOTALL)
# Snippets, code, formulas, link targets and comments are no prose; nor are names with numbers.
NOT_PROSE = re.compile(
    r"^```.*?^```|^    .*?$|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)]*\)|<!--.*?-->|"
    r"Python 3\.\d+|Apache-2\.0|\w+://\S+",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w^])")
UNIT = r"(?:%|[kMG]i?B|ms|seconds?|minutes?|hours?|h|min|s|times|x)\b|%"
CLAIM = re.compile(rf"(?<![\w.,-])(?:\d+(?:,\d{{3}})*\.\d+|\d+(?:,\d{{3}})*(?= ?(?:{UNIT})))")


def prose(text: str) -> str:
    """The text without what is not prose."""
    return NOT_PROSE.sub(" ", text)


def stray_claims(text: str) -> list[str]:
    """Numbers that look measured and stand outside of a block that says where from."""
    return CLAIM.findall(prose(MADE.sub(" ", MEASURED.sub(" ", text))))


def same(quoted: str, number: float) -> bool:
    """Whether `number`, rounded as far as `quoted` is, is what was quoted."""
    plain = quoted.replace(",", "")
    digits = len(plain.partition(".")[2])
    if not digits and len(plain) > 2:  # 1,500 for 1,506: as many digits as are not zero
        digits = len(plain.rstrip("0")) - len(plain)
    return abs(round(number, digits) - float(plain)) < 1e-9


def missing(block: str, units: Sequence[set[float]]) -> list[str]:
    """The numbers of a block that its sources do not have.

    Those of a row of a table must be found together, in one line of a page or in one record.
    """
    lines = prose(block).splitlines()
    rows = [_numbers(line) for line in lines if line.startswith("|")]
    rest = _numbers("\n".join(line for line in lines if not line.startswith("|")))
    wrong = [word for word in rest if not any(_has(unit, word) for unit in units)]
    for row in rows:
        left = [[word for word in row if not _has(unit, word)] for unit in units]
        wrong += min(left, key=len, default=row)
    return wrong


def _numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def _has(unit: set[float], word: str) -> bool:
    return any(same(word, number) for number in unit)


def units_in(source: Path) -> list[set[float]]:
    """What belongs together in a source: a line of a page, a record, or the means over seeds."""
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
    return each + [_means(group) for group in by_recipe.values()]


def units_of_text(text: str) -> list[set[float]]:
    """The numbers in each line, however they are written."""
    found = (re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", line) for line in text.splitlines())
    return [{float(word.replace(",", "")) for word in words} for words in found if words]


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
