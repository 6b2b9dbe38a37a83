"""The pages people read, and their snippets, run as a reader would: in order, in one folder."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from treefold.lab.cli.app import app

ROOT = Path(__file__).parent.parent.parent
BUILT = ROOT / "docs" / "results" / "table.md"
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if page != BUILT and "_build" not in page.parts
    ),
]
SAVED = re.compile(r"# (\w+\.py): save this as a file\n")
SMALL = re.compile(r"\b(quick|standard)\b")
HERE = ("list", "train", "sweep", "evaluate", "laws", "report")
RESULTS = ROOT / "results"
WITHOUT_TORCH = """
import runpy, sys
sys.modules.update(torch=None, treefold=None)  # to import them is an error
runpy.run_path(sys.argv[1], run_name="__main__")
"""
PROGRAMS = {
    "treefold": ["-m", "treefold.lab.cli"],
    "torchrun": ["-m", "torch.distributed.run"],
    "python": ["-c", WITHOUT_TORCH],  # what is served
}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line it begins at."""

    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in found]


def commands_of(block: Block) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in block.text.splitlines() if line.strip()]


def run_command(words: list[str], folder: Path) -> None:
    """Run a line of a shell block; presets shrink to the smallest, and make is left to CI."""
    program, *arguments = words
    if program == "make":
        return
    if program not in PROGRAMS:
        raise ValueError(f"{program} is not run here; use one of {', '.join(PROGRAMS)} or make")
    published = f"{RESULTS.name}/"
    small = [w if w.startswith(published) else SMALL.sub("smoke", w) for w in arguments]
    if program == "treefold" and arguments[0] in ("train", "evaluate"):
        small += ["--threads", "1"]  # tests share their cores
    if program == "treefold" and arguments[0] in HERE and "--processes" not in arguments:
        run_here(small)
        return
    command = [sys.executable, "-W", "ignore", *PROGRAMS[program], *small]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"{shlex.join(words)}\n{done.stdout}{done.stderr}")
    print(done.stdout)


def run_here(arguments: list[str]) -> None:
    """A command in this process: importing torch again takes longer than what pages do.

    A sweep trains its rows one after the other; that of the README runs as it stands.
    """
    threads = torch.get_num_threads()
    if arguments[0] == "sweep":
        arguments = ["train", *arguments[1:], "--threads", "1"]
    try:
        app(arguments, result_action="return_value")
    finally:
        torch.set_num_threads(threads)


def run_page(page: Path, folder: Path, languages: tuple[str, ...] = ("python", "sh")) -> str:
    """Run all snippets of a page, from `folder`, where results/ is too; gives what they print."""
    (folder / RESULTS.name).symlink_to(RESULTS)
    printed, namespace = io.StringIO(), {"__name__": "document"}
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        for block in (block for block in blocks_of(page) if block.language in languages):
            saved = SAVED.match(block.text)
            if saved:
                (folder / saved[1]).write_text(block.text)
            elif block.language == "python":
                lines = "\n" * (block.line - 1)  # so that a traceback names the page's line
                exec(compile(lines + block.text, str(page), "exec"), namespace)
            elif block.language == "sh":
                for words in commands_of(block):
                    run_command(words, folder)
    return printed.getvalue()
