"""A disk that fails at a chosen moment."""

import errno
import os
from contextlib import contextmanager
from unittest.mock import patch

CALLS = ("open", "write", "fsync", "replace", "unlink")


class Killed(BaseException):
    """The process is gone, and cannot clean up either."""


@contextmanager
def failing_disk(at, error, for_good=False):
    """Yields the calls made so far; the `at`-th one fails, and `for_good` all that follow."""
    calls = []

    def watched(name, real):
        def call(*arguments, **options):
            calls.append(name)
            if len(calls) == at and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if len(calls) == at or (for_good and len(calls) > at):
                raise error
            return real(*arguments, **options)

        return call

    with patch.multiple(os, **{name: watched(name, getattr(os, name)) for name in CALLS}):
        yield calls


def count_calls(action):
    with failing_disk(0, None) as calls:
        action()
    return len(calls)


def os_error(name):
    number = getattr(errno, name)
    return OSError(number, os.strerror(number))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
