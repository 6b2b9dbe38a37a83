"""One made-up results folder, and the report on it, for all claims."""

import pytest
from report.synthetic import save_everything

from treefold.report import write_report
from treefold.report.content import read_content


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return save_everything(tmp_path_factory.mktemp("results") / "runs")


@pytest.fixture(scope="session")
def content(runs):
    return read_content(runs)


@pytest.fixture(scope="session")
def files(runs):
    return write_report(runs, runs.parent / "report")
