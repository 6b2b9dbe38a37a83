"""Whoever follows the page on adding an operator to the letter gets an aggregator of that name."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from documents.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "adding-an-operator.md"
USE = """
import torch
import treefold

print(treefold.__file__)
sets = treefold.aggregator("gated-sum", 8)
print(type(sets.operator).__module__)
print(tuple(sets(torch.randn(9, 8), torch.tensor([0] * 4 + [1] * 5)).shape))
"""


def shown(file):
    """The lines that the page shows for a file it names: those indented below."""
    text = PAGE.read_text().split(f"`{file}`", 1)[1]
    block = re.search(r"\n\n((?:    .*\n|\n)+)", text)[1]
    return [line.removeprefix("    ") for line in block.splitlines() if line.strip()]


def follow(file, lines):
    """Put the page's lines into a file: imports above the first, others at the end of the dict."""
    text, head = file.read_text(), ""
    for line in lines:
        if line.startswith("from "):
            assert "\nfrom " in text
            text = text.replace("\nfrom ", f"\n{line}\nfrom ", 1)
        elif line.endswith("= {"):
            head = line
            assert text.count(f"\n{head}\n") == 1, f"{file.name} has no {head}"
        elif line.startswith("    ") and line.strip() != "...":
            before, after = text.split(f"\n{head}\n")
            inside, rest = after.split("\n}", 1)
            text = f"{before}\n{head}\n{inside}\n{line}\n}}{rest}"
    file.write_text(text)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with the page's operator in it."""
    folder = tmp_path_factory.mktemp("added")
    copy = shutil.copytree(
        ROOT / "src" / "treefold",
        folder / "treefold",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    first = next(block for block in blocks_of(PAGE) if block.language == "python")
    (copy / "operators" / "gated_sum.py").write_text(first.text)
    for name in ("operators/__init__.py", "aggr/registry.py"):
        follow(copy / name, shown(f"src/treefold/{name}"))
    return folder


def test_the_page_s_steps_give_an_aggregator_that_folds(package):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", USE],
        env={**os.environ, "PYTHONPATH": str(package)},
        cwd=package,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    where, module, shape = done.stdout.splitlines()
    assert where.startswith(str(package))
    assert (module, shape) == ("treefold.operators.gated_sum", "(2, 8)")


def test_the_page_names_the_file_it_shows():
    assert "`src/treefold/operators/gated_sum.py`" in PAGE.read_text()
