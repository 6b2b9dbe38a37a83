"""Pages of numbers: named for what, where and when, and saying what they were made with."""

import datetime
import platform
from importlib.metadata import version
from pathlib import Path

import treefold
from treefold.lab.runs import hardware

HERE = Path(__file__).parent


def page_path(what: str, folder: Path = HERE) -> Path:
    """Such as `folds_amd-epyc-linux_2026-11.md`."""
    where = f"{hardware()['cpu'].lower().replace(' ', '-')}-{platform.system().lower()}"
    return folder / f"{what}_{where}_{datetime.date.today():%Y-%m}.md"


def made_by(command: str, *packages: str) -> str:
    """The command, the day, the machine, and the versions of packages and of treefold."""
    now, machine = datetime.datetime.now(datetime.UTC), hardware()
    versions = ", ".join(f"{name} {version(name).split('+')[0]}" for name in packages)
    return (
        f"Made by `{command}` on {now:%Y-%m-%d}, {machine['cpu']}, {machine['cores']} cores, "
        f"Python {platform.python_version()}, {versions}, treefold {treefold.__version__}."
    )


def table(columns: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return head + [f"| {' | '.join(row)} |" for row in rows]
