"""`treefold data build`: prints what was made and what was left out; mistakes are one line."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("skimage")

from treefold.lab.cli.app import app

LINES = "smiles\nCCO\nC1CC\nCCN\nCCC\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))


def treefold(*arguments):
    app([str(argument) for argument in arguments], result_action="return_value")


def test_molecules_are_built_and_the_bad_line_is_named(tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text(LINES)
    treefold("data", "build", "zinc", table, "--out", tmp_path / "out")
    printed = capsys.readouterr()
    assert f"{tmp_path / 'out' / 'ZINC'} has train 1  val 1  test 1 graphs" in printed.out
    assert "1 were left out; see" in printed.out
    assert "  mine.csv, line 3: 'C1CC' is no SMILES that RDKit can read\n" in printed.out
    assert f"treefold compare zinc --data {tmp_path / 'out'}" in printed.out


def test_images_are_built_with_the_options_given(tmp_path, capsys):
    images = np.random.default_rng(0).random((6, 12, 12)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=images, y=np.arange(6) % 2)
    options = ["--superpixels", "9", "--compactness", "0.1", "--out", tmp_path / "out"]
    treefold("data", "build", "superpixels", tmp_path / "mine.npz", *options)
    printed = capsys.readouterr().out
    assert f"{tmp_path / 'out' / 'MNIST'} has train 4  val 1  test 1 graphs" in printed
    assert '"superpixels": 9' in (tmp_path / "out" / "MNIST" / "built.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc", "nowhere.csv"], "nowhere.csv is not a file"),
        (["superpixels", "nowhere"], "nowhere is no folder and no .npz file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        treefold("data", "build", *arguments, "--out", tmp_path)
    assert left.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("treefold: ")
    assert message in printed
    assert printed.count("\n") == 1


WITHOUT_RDKIT = """
import sys
sys.modules["rdkit"] = None
from treefold.lab.cli.app import app
app(["data", "build", "zinc", "mine.csv", "--out", "out"])
"""


def test_a_missing_package_is_named_with_what_to_install(tmp_path):
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_RDKIT]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "needs rdkit; pip install 'treefold[build]'" in done.stderr
