"""Compiling the folds ahead of their first use."""

import sys

from treefold.operators import CannotBuild, compile_kernels


def compile_folds() -> None:
    """Print where the library is; where there can be none, say why, and that torch folds."""
    try:
        print(compile_kernels())
    except CannotBuild as error:
        print(f"folds run in plain torch: {error}", file=sys.stderr)
        sys.exit(1)
