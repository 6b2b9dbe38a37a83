"""One cache for all tests of the session: the full data are drawn once."""

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory, request):
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # shared by the workers of xdist
    return folder / "cache"
