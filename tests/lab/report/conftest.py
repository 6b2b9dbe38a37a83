"""One made-up results folder, and the report on it, for all claims."""

import pytest
from lab.report.synthetic import save_everything

from treefold.lab.report.content import read_content
from treefold.lab.report.markdown import report_markdown
from treefold.lab.report.page import page_html


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    return save_everything(tmp_path_factory.mktemp("results") / "runs")


@pytest.fixture(scope="session")
def content(runs):
    return read_content(runs)


@pytest.fixture(scope="session")
def out(runs):
    """Where the report lies, as far as links in the page know."""
    return runs.parent / "report"


@pytest.fixture(scope="session")
def page(content, out):
    return page_html(content, out)


@pytest.fixture(scope="session")
def table(content, out):
    return report_markdown(content, out)
