"""Peak memory of a process, and of one piece of work in a process of its own. Linux only."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """The peak of this process since it began; `resource` may report its parent's."""
    (line,) = [text for text in STATUS.read_text().splitlines() if text.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def peak_of(work: Callable[[], object]) -> int:
    """By how many bytes `work` raises the peak memory over what is held now."""
    STATUS.with_name("clear_refs").write_text("5")  # the peak is what there is now
    before = peak_bytes()
    work()
    return peak_bytes() - before


def printed_by(module: str, *arguments: str) -> str:
    """The output of `python -m module arguments`, in a process that has done nothing else."""
    return printed(["-m", module, *arguments])


def printed(arguments: list[str]) -> str:
    """The output of Python with these arguments."""
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def peak_in_a_process(module: str, which: str, name: str) -> int:
    """The output of `python -m module --peak which name`."""
    return int(json.loads(printed_by(module, "--peak", which, name)))
