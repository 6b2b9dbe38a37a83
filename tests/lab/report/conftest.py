"""One made-up results folder, and the page on it, for all claims."""

import pytest
from lab.report.synthetic import save_everything

from treefold.lab.report import write_report
from treefold.lab.report.runs import load
from treefold.lab.report.sections import report_page


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return save_everything(tmp_path_factory.mktemp("results") / "runs")


@pytest.fixture(scope="session")
def groups(runs):
    return load(runs)[0]


@pytest.fixture(scope="session")
def content(runs):
    return report_page(*load(runs))


@pytest.fixture(scope="session")
def path(runs):
    return write_report(runs, runs.parent / "report")


@pytest.fixture(scope="session")
def page(path):
    return path.read_text()
