"""Files are short, functions shorter, and docstrings open with a noun or a verb."""

import ast
import re
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    path
    for folder in ("src", "tests", "docs", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
SOURCES = [path for path in FILES if path.is_relative_to(ROOT / "src")]
OPENING = re.compile(r"\s*(What|How|Whether|Where|Which|Of|Who|That)\b")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def texts(tree):
    """The docstrings of a file, those of its constants and fields too, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "benchmarks", "examples"])
def test_docstrings_open_with_a_noun_or_a_verb(folder):
    odd = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in FILES
        if path.is_relative_to(ROOT / folder)
        for line, text in texts(ast.parse(path.read_text()))
        if OPENING.match(text)
    ]
    assert odd == []


def test_no_file_of_the_lab_has_more_than_300_lines():
    lab = (path for path in SOURCES if path.is_relative_to(ROOT / "src" / "treefold" / "lab"))
    lengths = {path.name: len(path.read_text().splitlines()) for path in lab}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_functions_have_at_most_15_lines_in_the_median():
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, FUNCTIONS)
    ]
    assert median(lengths) <= 15
