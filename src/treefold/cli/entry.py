"""The entry point: says what to install where the command line's own packages are missing."""

import os
import sys


def main() -> None:
    """Run the command line."""
    try:
        from treefold.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        raise SystemExit(
            f"treefold: the command line needs {error.name}; pip install 'treefold[train,report]'"
        ) from None
    try:
        app()
    except BrokenPipeError:  # whoever read our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
