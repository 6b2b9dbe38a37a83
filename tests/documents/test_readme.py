"""Every Python block of README and docs runs; the README stays short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from treefold.records import Record

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_all_python_blocks_run_in_order(document, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    assert blocks, f"{document.name} has no Python block: leave it out of DOCUMENTS"
    namespace = {"__name__": "document"}
    for block in blocks:
        exec(compile(block, document.name, "exec"), namespace)


def test_the_readme_s_commands_run(tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.M)
    commands = [line for block in blocks for line in block.splitlines() if line[:8] == "treefold"]
    assert [command.split()[1] for command in commands] == ["list", "train", "sweep", "report"]
    for command in commands:  # at the smallest preset
        arguments = command.replace("--preset quick", "--preset smoke").split()[1:]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "treefold.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs" / "report" / "report.html").stat().st_size < 6_000_000


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_readme_names_both_commands_on_its_first_screen_and_make_knows_them():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in first_screen
        assert re.search(rf"^{command}: setup$", makefile, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_all_local_links_and_file_names_exist(document):
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    named = re.findall(r"`((?:src|tests|examples|benchmarks)/[\w/.]+\.py)`", text)
    missing = [link for link in links if not (document.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert [name for name in missing if "gated_sum" not in name] == []


def test_the_readme_s_results_are_those_of_the_records():
    table = (ROOT / "README.md").read_text().partition("## Results")[2].partition("## Speed")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) == 6
    for name, *numbers in rows:
        folder = ROOT / "results" / "second-minimum" / name.strip(" `") / "quick" / "seed-0"
        record = Record.read(folder)
        columns = ("accuracy@1-16", "accuracy@32", "accuracy@200")
        found = [[record.metrics[key], record.reported[key]["value"]] for key in columns]
        assert [float(n) for n in numbers] == [round(value, 3) for pair in found for value in pair]
