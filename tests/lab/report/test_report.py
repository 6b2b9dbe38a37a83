"""The report is one file that needs nothing else, the same every time, and a table to read."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from lab.report.synthetic import record, save

from treefold.lab.report import write_report

RESULTS = Path(__file__).parents[3] / "results"
EVIL = '</style><img src=x onerror="alert(1)">[a](javascript:b)</details>$_漢'


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_page_loads_nothing_and_runs_nothing(page):
    tags = Tags(page).found
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "base", "iframe"}
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    plain = re.sub(r'xmlns(:xlink)?="[^"]+"', "", page)
    assert not re.search(r"https?://|url\((?!#)|@import", plain)


def test_every_aggregator_leads_to_its_records(page, path):
    tags = Tags(page).found
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    records = [unquote(link) for link in links if not link.startswith("#")]
    assert len(records) == 33
    assert all((path.parent / record).resolve().is_file() for record in records)


def test_no_label_of_latex_and_no_unknown_commit_is_on_the_page(tmp_path):
    save(tmp_path / "a", record("gru", commit="unknown"))
    text = write_report(tmp_path, tmp_path).read_text()
    assert "tab:" not in text
    assert "unknown" not in text
    assert "the paper&#39;s Table 2" in text


def test_the_same_records_give_the_same_bytes(runs, path, tmp_path):
    assert write_report(runs, path.parent).read_bytes() == path.read_bytes()


def test_a_malicious_record_is_only_text(tmp_path):
    made = record(EVIL.replace("/", ""), departures=[EVIL], status="failed", error=EVIL)
    save(tmp_path / "a", made)
    save(tmp_path / "b", record("gru", departures=[EVIL]))
    page = write_report(tmp_path, tmp_path).read_text()
    assert "<img" not in page
    assert page.count("&lt;img") >= 2


def test_the_terminal_has_one_table_and_the_path(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for row in ("gru", "sum"):
        save(tmp_path / row, record(row, preset="quick"))
    path = write_report(tmp_path, tmp_path / "out")
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert lines[-1] == f"the page is {path}"
    (gru,) = [line.split() for line in lines if line.startswith("GRU")]
    assert gru == ["GRU", "recurrent", "0.993", "0.996", "0.988", "0.998", "0.878", "0.912"]
    assert len(lines) == 6


def test_of_several_experiments_the_terminal_has_the_overview(runs, tmp_path, capsys):
    write_report(runs, tmp_path)
    told = capsys.readouterr().out
    assert "best learned" in told
    assert "Second minimum" in told
    assert "epochs" not in told


def test_all_of_the_results_are_under_two_megabytes(tmp_path):
    path = write_report(RESULTS, tmp_path)
    assert 100_000 < path.stat().st_size < 2_000_000


@pytest.mark.parametrize(
    "changes", [{"hardware": {}, "commit": ""}, {"recipe": {}}, {"metrics": {}}]
)
def test_old_records_that_miss_an_entry_make_a_page(tmp_path, changes):
    save(tmp_path / "a", record("gru", **changes))
    assert "GRU" in write_report(tmp_path, tmp_path).read_text()


def test_a_report_is_made_without_torch():
    code = "import sys, treefold.lab.report; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
