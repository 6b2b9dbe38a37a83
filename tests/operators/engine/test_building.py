"""The library is built once, where nobody else can write; where it cannot be, torch folds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treefold.operators.engine import building
from treefold.operators.engine.building import CannotBuild, library

COMPILER = """#!/bin/sh
# Stands for a compiler: notes that it was called, takes its time, and writes something.
echo called >> "{calls}"
sleep 1
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo library > "$2"; shift; done
exit {code}
"""

FOLDING = """
import logging, torch
from treefold.fold import plan_tree, tree_reduce
from treefold.operators import GatedSelection
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
op = GatedSelection(4)
rows = [tree_reduce(op, torch.ones(3, 4), plan_tree([3])) for _ in range(2)]
print(rows[0].shape, torch.equal(*rows))
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in for the compiler; `compiler(code)` sets what it returns, and gives its calls."""
    script, calls = tmp_path / "c++", tmp_path / "calls"

    def make(code=0):
        script.write_text(COMPILER.format(calls=calls, code=code))
        script.chmod(0o755)
        calls.write_text("")
        monkeypatch.setenv("CXX", str(script))
        return lambda: len(calls.read_text().splitlines())

    return make


def run(program, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "TREEFOLD_ENGINE": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_was_built_is_not_built_again(tmp_path, compiler):
    calls = compiler()
    first, second = library(tmp_path / "cache"), library(tmp_path / "cache")
    assert (first, calls()) == (second, 1)
    assert first.read_text() == "library\n"
    assert {path.suffix for path in first.parent.iterdir()} == {".so", ".sha256", ".lock"}


def test_two_processes_at_once_build_it_once(tmp_path, compiler):
    calls = compiler()
    program = (
        "from pathlib import Path; from treefold.operators.engine.building import library;"
        f"print(library(Path({str(tmp_path / 'cache')!r})))"
    )
    answers = [process.communicate() for process in [run(program), run(program)]]
    assert len({out for out, _ in answers}) == 1
    assert Path(answers[0][0].strip()).is_file()
    assert calls() == 1


@pytest.mark.parametrize("content", ["", "half a libr"])
def test_a_broken_library_is_built_again(tmp_path, compiler, content):
    calls = compiler()
    library(tmp_path / "cache").write_text(content)
    assert library(tmp_path / "cache").read_text() == "library\n"
    assert calls() == 2


@pytest.mark.parametrize("what", ["capability", "_flags"])
def test_another_cpu_has_another_library(tmp_path, compiler, what, monkeypatch):
    compiler()
    first = library(tmp_path / "cache")
    other = {"capability": "AVX1024", "_flags": ["-O1"]}[what]
    monkeypatch.setattr(building, what, lambda: other)
    assert library(tmp_path / "cache") != first


def test_a_build_that_fails_is_tried_again_only_if_asked_for(tmp_path, compiler):
    calls = compiler(code=1)
    for _ in range(2):
        with pytest.raises(CannotBuild, match="failed: no word of why"):
            library(tmp_path / "cache")
    assert calls() == 1
    calls = compiler(code=0)
    assert library(tmp_path / "cache", again=True).is_file()
    assert library(tmp_path / "cache").is_file()
    assert calls() == 1


def test_without_a_compiler_the_reason_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(CannotBuild, match=r"no C\+\+ compiler .*none; install one, or name"):
        library(tmp_path / "cache")


def test_code_is_not_loaded_from_where_others_write(tmp_path, compiler):
    compiler()
    tmp_path.chmod(0o777)
    with pytest.raises(CannotBuild, match="others may write to"):
        library(tmp_path)


def test_another_platform_has_plain_torch(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(CannotBuild, match="no compiled engine for win32"):
        library()


@pytest.mark.parametrize("kind", ["no compiler", "failing compiler", "not a library"])
def test_where_nothing_can_be_loaded_torch_folds_and_one_line_says_why(tmp_path, compiler, kind):
    compiler(code=1 if kind == "failing compiler" else 0)
    compiled_by = str(tmp_path / "none") if kind == "no compiler" else os.environ["CXX"]
    out, err = run(FOLDING, CXX=compiled_by, TREEFOLD_KERNELS=str(tmp_path / "mine")).communicate()
    assert out.strip() == "torch.Size([1, 4]) True"
    said = [line for line in err.splitlines() if line.startswith("treefold WARNING")]
    reasons = {
        "no compiler": "there is no C++ compiler",
        "failing compiler": "failed: no word of why",
        "not a library": "file too short",
    }
    assert sum("folds run in plain torch: " in line for line in said) == 1
    assert reasons[kind] in said[-1]


def test_importing_builds_nothing(tmp_path):
    out, err = run(
        "import treefold.operators", CXX="/bin/false", TREEFOLD_KERNELS=str(tmp_path / "mine")
    ).communicate()
    assert (out, err) == ("", "")
    assert not (tmp_path / "mine").exists()


def test_the_engine_can_be_left_out():
    out, err = run(FOLDING, CXX="/bin/false", TREEFOLD_ENGINE="torch").communicate()
    assert out.strip() == "torch.Size([1, 4]) True"
    assert "treefold WARNING" not in err
