"""No cache or data of the person who runs the tests is looked at."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TREEFOLD_DATA", raising=False)
