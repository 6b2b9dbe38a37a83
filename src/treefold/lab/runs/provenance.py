"""The provenance of numbers: versions, hardware, commit. Nothing that names a person or a host."""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import treefold
from treefold.cores import num_cores

PACKAGES = (
    "torch",
    "torch_geometric",
    "lightning",
    "lightning-fabric",
    "torchmetrics",
    "safetensors",
    "numpy",
)


def versions() -> dict[str, str]:
    """The versions of Python, treefold, and what it computes with, as far as installed.

    Labels of local builds are left out: torch 2.13.0+cpu is 2.13.0.
    """
    found = {"python": platform.python_version(), "treefold": treefold.__version__}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """The processor, the cores this process may use, load, the memory in bytes, and accelerators.

    Accelerators are known to torch alone, so there are none before torch has been imported.
    """
    return {
        "cpu": _cpu(),
        "cores": num_cores(),
        "load": _load(),
        "memory": _memory(),
        "accelerators": _accelerators(),
    }


def commit() -> str:
    """The git commit of the source that runs, with `-dirty` if files in `src` differ from it.

    `unknown` if treefold does not run from a checkout, or git does not answer.
    """
    checkout = Path(__file__).resolve().parents[4]
    # Asking git alone would find the repository around a virtual environment.
    if not (checkout / ".git").exists():
        return "unknown"
    try:
        head = _git(checkout, "rev-parse", "--verify", "HEAD")
        changes = _git(checkout, "status", "--porcelain", "--", "src")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}-dirty" if changes else head


def _git(checkout: Path, *arguments: str) -> str:
    # Inside a git hook, GIT_DIR and its kin point elsewhere.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    answer = subprocess.run(
        ["git", "-C", str(checkout), *arguments],
        env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=5,
        check=True,
    )
    return answer.stdout.decode(errors="replace").strip()


def _cpu() -> str:
    """The name of the first processor; on Linux with its family and model, as names are vague."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    name = found.get("model name") or platform.processor() or platform.machine() or "unknown"
    numbers = [f"{key} {found[of]}" for key, of in _CPU_NUMBERS.items() if of in found]
    return f"{name} ({', '.join(numbers)})" if numbers else name


_CPU_NUMBERS = {"family": "cpu family", "model": "model"}


def _load() -> float | None:
    """The processes that wanted a core in the last minute: timings on a busy machine are slow."""
    try:
        return round(os.getloadavg()[0], 1)
    except (AttributeError, OSError):
        return None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _accelerators() -> list[str]:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return []
    if torch.cuda.is_available():
        return [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    if torch.accelerator.is_available():
        return [torch.accelerator.current_accelerator().type] * torch.accelerator.device_count()
    return []
