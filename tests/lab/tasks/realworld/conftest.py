"""A handful of real graphs from the repository, and whole data sets where they are at hand."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
FEW = ROOT / "tests" / "data" / "realworld"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREEFOLD_DATA", raising=False)


@pytest.fixture
def few():
    """The folder of a few real graphs in the official files."""
    return FEW


@pytest.fixture
def copy(tmp_path):
    """A copy of that folder, to be damaged."""
    return Path(shutil.copytree(FEW, tmp_path / "copy"))


@pytest.fixture(scope="session")
def packed():
    """The folder of the whole data sets, as they are packed."""
    folder = Path(os.environ.get("TREEFOLD_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "unpack").is_file():
        pytest.skip(f"no whole data sets in {folder}; name their folder in TREEFOLD_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def whole(packed, tmp_path_factory):
    """The folder of the whole ZINC and MolHIV in the official files."""
    target = tmp_path_factory.mktemp("whole")
    command = [sys.executable, packed / "unpack", target, "zinc", "molhiv"]
    subprocess.run(command, check=True, capture_output=True)
    return target
