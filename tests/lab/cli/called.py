"""A command called in this process: as from a shell, without importing torch again."""

import contextlib
import io
import subprocess
import sys
from types import SimpleNamespace

from treefold.lab.cli.app import app


def treefold(*arguments, code=0):
    """The command's `stdout` and `stderr`, once it has ended with this exit code."""
    out, err, found = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app([str(argument) for argument in arguments], result_action="return_value")
        except SystemExit as left:
            found = left.code
    done = SimpleNamespace(stdout=out.getvalue(), stderr=err.getvalue())
    assert found == code, done.stdout + done.stderr
    return done


def started(*arguments, code=0):
    """The same in a process of its own: for commands that start others."""
    command = [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == code, done.stdout + done.stderr
    return done
