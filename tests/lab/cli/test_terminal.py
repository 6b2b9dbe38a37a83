"""On a terminal, a run shows a bar with what a person wants to know; elsewhere it is plain."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from treefold.lab.cli.display import Bars
from treefold.lab.cli.errors import as_one_line
from treefold.lab.runs import Record

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(columns, *arguments):
    """All that the command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read():
        try:
            while part := os.read(ours, 4096):
                seen.append(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"},
        timeout=170,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return done.returncode, b"".join(seen).decode()


@pytest.fixture(scope="module", params=[80, 200])
def screen(request, tmp_path_factory):
    code, text = on_a_terminal(
        request.param,
        *("train", "second-minimum/binary-gru", "--preset", "smoke", "--threads", "1"),
        *("--out", tmp_path_factory.mktemp("runs"), "--set", "model.channels=8"),
        *("--set", "task.num_train=2048", "--set", "task.num_evaluation=4"),
    )
    assert code == 0, text
    return text


def test_the_bar_moves_and_says_how_it_goes(screen):
    plain = ESCAPES.sub("", screen)
    assert "\x1b[" in screen  # redrawn in place
    percentages = [int(found) for found in re.findall(r"(\d+)%", plain)]
    assert percentages == sorted(percentages)
    assert len(set(percentages)) > 1
    assert re.search(r"epoch [12]/2 +loss 0\.\d+ .*validation 0\.\d+ .*(ity|law) off by", plain)
    assert re.search(r"[\d,]+ sets/s", plain)
    assert re.search(r"\d\d:\d\d", plain)  # time left


def test_the_bar_leaves_one_line_with_the_result(screen):
    rows, at = [""], 0
    for piece in re.split(r"(\n|\x1b\[2K|\x1b\[1A)", screen):
        if piece == "\n":
            at += 1
            rows += [""] * (at == len(rows))
        elif piece == "\x1b[2K":  # clears its line
            rows[at] = ""
        elif piece == "\x1b[1A":  # goes up
            at -= 1
        else:
            rows[at] += piece
    left = [text for row in rows if (text := ESCAPES.sub("", row).strip())]
    assert len(left) == 1
    assert left[0].startswith("second-minimum/binary-gru: accuracy@1-16")


def test_brackets_in_a_message_are_no_markup(capsys):
    with Bars() as bars:
        bars.finish("a row", "failed: cannot write [/tmp/x]: expected [n, ..., 8]")
    assert "a row: failed: cannot write [/tmp/x]: expected [n, ..., 8]" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error():
    with pytest.raises(BrokenPipeError), as_one_line(debug=False):
        raise BrokenPipeError


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("jinja2", "report"),
        ("lightning_fabric", "train"),
        ("pyarrow", "tables"),
        ("ray", "ray"),
        ("networkx", "graphs"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it(capsys, module, extra):
    with pytest.raises(SystemExit) as left, as_one_line(debug=False):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        f"treefold: this needs {module}; pip install 'treefold[{extra}]'\n"
    )


def test_a_run_goes_on_when_nobody_reads_its_lines_any_more(tmp_path):
    """As behind `| head -1`: the first line is read, then the pipe is closed."""
    changes = ["training.epochs=4", "task.num_train=64", "evaluation.sizes=1"]
    sets = [part for change in changes for part in ("--set", change)]
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "train", "second-minimum/sum",
         "--preset", "smoke", "--threads", "1", "--out", str(tmp_path), *sets],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "epoch 1/4" in child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=170) == 0, child.stderr.read()
    child.stderr.close()
    record = Record.read(next(tmp_path.rglob("record.json")).parent)
    assert (record.status, record.epochs) == ("finished", 4)


def test_a_run_whose_watcher_is_gone_saves_and_stops(tmp_path):
    """As a run of a sweep that was killed: it must not train next to the next one."""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "train", "second-minimum/sum",
         "--preset", "smoke", "--threads", "1", "--out", str(tmp_path), "--json-lines",
         "--set", "training.epochs=100000", "--set", "task.num_train=64"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "epoch" in child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=170) == 130
    assert "treefold resume" in child.stderr.read()
    child.stderr.close()
    record = Record.read(next(tmp_path.rglob("record.json")).parent)
    assert record.status == "stopped"
