"""The C++ source, compiled once per machine with torch's own headers, and kept for this user.

The library's name is made from all that it depends on: the source, torch's version, the
instructions of the CPU and the compiler's flags. It is built in a folder of its own, by one process
at a time, and then moved to its place.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from filelock import FileLock

_log = logging.getLogger("treefold")

SOURCE = Path(__file__).parent / "engine.cpp"
MAX_SECONDS = 1200
"""Seconds that a compiler may take, and other processes wait for it."""

_FLAGS = ["-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-fopenmp"]
_OF_CAPABILITY = {
    "AVX512": [
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma"),
        "-mprefer-vector-width=512",
    ],
    "AVX2": ["-mavx2", "-mfma"],
}


class CannotBuild(Exception):
    """Says in its message why there is no library."""


def capability() -> str:
    """Torch's name for the instructions of this CPU: `AVX512`, `AVX2`, `DEFAULT`, ..."""
    return torch.backends.cpu.get_cpu_capability()


def cache_folder() -> Path:
    """The folder of libraries: below `TREEFOLD_KERNELS`, or the user's cache."""
    given = os.environ.get("TREEFOLD_KERNELS")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "treefold" / "engine"


def library(folder: Path | None = None, again: bool = False) -> Path:
    """The compiled library in the `folder`, made if it is not there or not whole.

    What failed once is not tried by every process, but `again` if that is asked for.
    """
    if not sys.platform.startswith("linux"):
        raise CannotBuild(f"there is no compiled engine for {sys.platform}")
    try:
        folder = _private(cache_folder() if folder is None else folder)
        found = folder / f"{_key()}.so"
        if _is_whole(found):
            return found
        with FileLock(found.with_suffix(".lock"), timeout=MAX_SECONDS):
            if not _is_whole(found):  # another process may have made it meanwhile
                _build(found, again)
    except (OSError, RuntimeError, ImportError) as error:
        raise CannotBuild(f"{type(error).__name__}: {error}") from error
    return found


def is_built() -> bool:
    """Return True if the library is there already."""
    try:
        return _is_whole(cache_folder() / f"{_key()}.so")
    except OSError:
        return False


def compile_kernels() -> Path:
    """Compile the folds ahead of their first use, even if that failed before."""
    return library(again=True)


def _private(folder: Path) -> Path:
    """Code is loaded from here: nobody else may write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise CannotBuild(
            f"others may write to {folder}; expected a folder of your own (chmod go-w), or another "
            "one in TREEFOLD_KERNELS"
        )
    return folder


def _key() -> str:
    parts = [torch.__version__, capability(), *_flags(), *os.environ.get("CXX", "").split()]
    content = hashlib.sha256("\n".join(parts).encode())
    for path in [*sorted(SOURCE.parent.glob("*.h")), SOURCE]:
        content.update(path.read_bytes())
    return content.hexdigest()[:32]


def _flags() -> list[str]:
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return [*_FLAGS, *_OF_CAPABILITY.get(capability(), []), abi]


def _is_whole(library: Path) -> bool:
    digest = library.with_suffix(".sha256")
    if not library.is_file() or not digest.is_file():
        return False
    return digest.read_text() == hashlib.sha256(library.read_bytes()).hexdigest()


def _build(library: Path, again: bool) -> None:
    failed = library.with_suffix(".failed")
    if failed.exists() and not again:
        raise CannotBuild(f"{failed.read_text()} (to try again: treefold compile-kernels)")
    _log.warning("treefold: compiling folds: once per machine, up to a minute")
    with TemporaryDirectory(dir=library.parent) as temporary:
        made = Path(temporary) / library.name
        try:
            _compile(made)
        except CannotBuild as error:
            if _compiler() is not None:
                failed.write_text(str(error))
            raise
        digest = made.with_suffix(".sha256")
        digest.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
        made.replace(library)
        digest.replace(library.with_suffix(".sha256"))
    failed.unlink(missing_ok=True)


def _compiler() -> str | None:
    from torch.utils import cpp_extension  # noqa: PLC0415 (slow to import)

    found: str | None = shutil.which(cpp_extension.get_cxx_compiler())
    return found


def _compile(made: Path) -> None:
    from torch.utils import cpp_extension  # noqa: PLC0415 (slow to import)

    compiler = _compiler()
    if compiler is None:
        name = cpp_extension.get_cxx_compiler()
        raise CannotBuild(f"there is no C++ compiler {name}; install one, or name yours in CXX")
    command = [
        *(compiler, "-shared", *_flags()),
        *(f"-isystem{path}" for path in cpp_extension.include_paths("cpu")),
        *(str(SOURCE), "-o", str(made)),
        *(f"-L{path}" for path in cpp_extension.library_paths("cpu")),
        *("-lc10", "-ltorch_cpu", "-ltorch"),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotBuild(f"{compiler} took more than {MAX_SECONDS} seconds") from error
    if done.returncode or not made.is_file():
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        first = (lines or done.stderr.splitlines() or ["no word of why"])[0].strip()
        raise CannotBuild(f"{compiler} failed: {first}")
