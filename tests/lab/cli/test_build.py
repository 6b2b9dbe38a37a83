"""`treefold data build`: what was made and what was left out is said; mistakes are one line."""

import sys

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("skimage")

from treefold.lab.cli.app import app
from treefold.lab.cli.building import progress_of

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
    told = capsys.readouterr()
    assert f"{tmp_path / 'out' / 'ZINC'} has train 1  val 1  test 1 graphs" in told.out
    assert "1 were left out; see" in told.out
    assert "  mine.csv, line 3: 'C1CC' is no SMILES that RDKit can read\n" in told.out
    assert f"treefold compare zinc --data {tmp_path / 'out'}" in told.out
    assert told.err.splitlines()[-1] == "4 of 4 molecules"


def test_images_are_built_with_the_options_given(tmp_path, capsys):
    images = np.random.default_rng(0).random((6, 12, 12)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=images, y=np.arange(6) % 2)
    options = ["--superpixels", "9", "--compactness", "0.1", "--out", tmp_path / "out"]
    treefold("data", "build", "superpixels", tmp_path / "mine.npz", *options)
    told = capsys.readouterr().out
    assert f"{tmp_path / 'out' / 'MNIST'} has train 4  val 1  test 1 graphs" in told
    assert '"superpixels": 9' in (tmp_path / "out" / "MNIST" / "built.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zinc", "nowhere.csv"], "nowhere.csv is not a file"),
        (["superpixels", "nowhere"], "nowhere is no folder and no .npy or .npz file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        treefold("data", "build", *arguments, "--out", tmp_path)
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("treefold: ")
    assert message in told
    assert told.count("\n") == 1


@pytest.mark.long  # in a process where nothing has imported rdkit yet
def test_a_missing_package_is_named_with_what_to_install(tmp_path, capsys, monkeypatch):
    for module in [
        name for name in sys.modules if name.startswith("treefold.lab.tasks.realworld.")
    ]:
        if module.endswith(("build_zinc", "molecules")):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(SystemExit):
        treefold("data", "build", "zinc", "mine.csv", "--out", tmp_path)
    assert "needs rdkit; pip install 'treefold[build]'" in capsys.readouterr().err


def test_a_terminal_gets_a_bar_with_counts(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress_of("images") as progress:
        progress(3, 7)
        progress(7, 7)
    seen = capsys.readouterr().err
    assert "images" in seen
    assert "7/7" in seen
    assert "\x1b" in seen
