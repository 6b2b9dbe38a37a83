"""The wheel and the source distribution install into empty environments, and work there."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKS = """
import torch, treefold
from treefold.lab.experiments import TRAINED, load_model
assert "site-packages" in treefold.__file__, treefold.__file__
sets = treefold.aggregator("binary-gru", channels=4)
assert sets(torch.randn(3, 4), torch.tensor([0, 0, 1])).shape == (2, 4)
assert [load_model(name).training for name in TRAINED] == [False] * 4
print(treefold.__version__)
"""


def run(*command, cwd=None):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=1500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    venv.create(folder / "builder", with_pip=True)
    python = folder / "builder" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "hatchling"]
    if subprocess.run([str(word) for word in pip], capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    run(python, "-m", "hatchling", "build", "--directory", folder, cwd=ROOT)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_into_an_empty_environment_and_works_there(kind, distributions, tmp_path):
    (path,) = distributions.glob(kind)
    venv.create(tmp_path / "empty", with_pip=True)
    python, constraints = tmp_path / "empty" / "bin" / "python", ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "-c", constraints, f"{path}[train,report]")
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert run(python, "-c", WORKS, cwd=tmp_path).split()[-1] == version
    shown = run(tmp_path / "empty" / "bin" / "treefold", "demo", cwd=tmp_path)
    assert "is proved right for every set of any size" in " ".join(shown.split())
    assert (tmp_path / "runs" / "demo-page" / "demo.html").is_file()


def test_every_page_names_the_same_version():
    assert sys.version_info >= (3, 11)
    versions = {
        re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1],
        re.search(r'__version__ = "(.*)"', (ROOT / "src/treefold/__init__.py").read_text())[1],
        re.search(r"^version: (.*)", (ROOT / "CITATION.cff").read_text(), re.M)[1],
        re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1],
    }
    assert len(versions) == 1, versions
