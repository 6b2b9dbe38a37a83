"""The README stays short, and its commands run."""

import re
import subprocess
import sys
import tomllib

from documents.pages import ROOT


def test_the_readme_s_commands_run(tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.M)
    commands = [line for block in blocks for line in block.splitlines() if line[:8] == "treefold"]
    assert [command.split()[1] for command in commands] == ["list", "train", "sweep", "report"]
    for command in commands:  # at the smallest preset
        arguments = command.replace("--preset quick", "--preset smoke").split()[1:]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs" / "report" / "report.html").stat().st_size < 6_000_000


def test_the_oldest_torch_that_may_be_installed_is_the_one_that_is_tested():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = dict(re.match(r"([\w-]+)>=([\d.]+)", each).groups() for each in declared)
    pinned = (ROOT / "constraints.txt").read_text().replace("torch-geometric", "torch_geometric")
    for package in ("torch", "torch_geometric"):
        assert re.search(rf"^{package}=={re.escape(oldest[package])}\.\d+$", pinned, re.MULTILINE)
    assert f"`torch>={oldest['torch']}`" in (ROOT / "README.md").read_text()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_readme_begins_with_how_to_install_it_and_make_knows_the_commands_for_contributors():
    text = (ROOT / "README.md").read_text()
    assert "pip install ." in "\n".join(text.splitlines()[:10])
    for command in ("demo", "test"):
        assert f"\nmake {command}  #" in text
        assert re.search(rf"^{command}: setup$", (ROOT / "Makefile").read_text(), re.MULTILINE)
