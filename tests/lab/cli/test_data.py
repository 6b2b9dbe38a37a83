"""`treefold data`: one-line errors, and nothing of someone's own is touched."""

import sys
from pathlib import Path

import pytest
from lab.cli.called import treefold
from rich.progress import DownloadColumn

from treefold.lab.cli.data import bar

FEW = Path(__file__).parents[2] / "data" / "realworld"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zink"], "unknown data set 'zink'; did you mean zinc?"),
        (["zinc", "--into", FEW], "was not fetched by treefold; it is used as it is"),
    ],
)
def test_wrong_wishes_are_one_line_and_exit_code_2(arguments, message):
    done = treefold("data", "fetch", *arguments, code=2)
    assert message in done.stderr
    assert done.stderr.startswith("treefold: ")
    assert done.stderr.count("\n") == 1


def test_help_names_the_data_sets():
    assert "zinc, molhiv, mnist, cifar10" in treefold("data", "--help").stdout


def test_a_terminal_gets_a_bar_with_bytes(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    with bar("zinc", DownloadColumn()) as progress:
        progress(500_000, 2_000_000)
        progress(2_000_000, 2_000_000)
    seen = capsys.readouterr().err
    assert "zinc" in seen
    assert "2.0/2.0 MB" in seen
    assert "\x1b" in seen


def test_elsewhere_there_is_no_bar(capsys):
    with bar("zinc", DownloadColumn()) as progress:
        progress(2_000_000, 2_000_000)
    assert capsys.readouterr().err == ""
