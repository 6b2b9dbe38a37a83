"""One made-up results folder, and the page on it, for all claims."""

import pytest
from lab.report.synthetic import save_everything

from treefold.lab.report import write_report
from treefold.lab.report.names import in_order
from treefold.lab.report.sections import report_page
from treefold.lab.runs import load_groups


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return save_everything(tmp_path_factory.mktemp("results") / "runs")


@pytest.fixture(scope="session")
def groups(runs):
    return in_order(load_groups(runs)[0])


@pytest.fixture(scope="session")
def content(runs):
    return report_page(*load_groups(runs))


@pytest.fixture(scope="session")
def path(runs):
    return write_report(runs, runs.parent / "report")


@pytest.fixture(scope="session")
def page(path):
    return path.read_text()
