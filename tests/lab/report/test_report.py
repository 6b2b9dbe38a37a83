"""The report as files: one page that needs nothing else, figures, a table, the same every time."""

import html
import json
import re
import shutil
from html.parser import HTMLParser
from unittest import mock
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lab.report.synthetic import log_rows, record, save, speed_record
from plotly.offline import get_plotlyjs

from treefold.lab.report import write_report
from treefold.lab.report.appendix import records_html
from treefold.lab.report.content import read_content
from treefold.lab.report.markdown import report_markdown
from treefold.lab.report.page import MAX_BYTES, page_html
from treefold.lab.runs import Record

EVIL = '</script><img src=x onerror="alert(1)">|[a](javascript:b)`</details>$_漢'


class Tags(HTMLParser):
    """The tags and attributes of a page, outside of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_parts_are_where_the_answer_says_and_nowhere_else(tmp_path):
    save(tmp_path / "runs" / "a", record("gru"), log_rows("gru", 5))
    files = write_report(tmp_path / "runs", tmp_path / "out")
    assert (files.page, files.table) == (tmp_path / "out/report.html", tmp_path / "out/table.md")
    slugs = [figure.slug for figure in read_content(tmp_path / "runs").figures]
    assert [path.name for path in files.figures] == [
        f"{s}.{k}" for s in slugs for k in ("png", "svg")
    ]
    written = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written == {files.page, files.table, *files.figures}
    tags = Tags(files.page.read_text().replace(get_plotlyjs(), "")).found
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    outer = {unquote(link) for link in links if not link.startswith("#")}
    assert len(outer) == len(files.figures) + 1
    assert all((tmp_path / "out" / link).is_file() for link in outer)


def test_the_page_is_small_and_holds_plotly_once(page):
    assert len(page.encode()) < MAX_BYTES
    assert page.count(get_plotlyjs()) == 1


def test_the_page_loads_nothing(page):
    page = page.replace(get_plotlyjs(), "")
    assert "http:" not in page
    assert "https:" not in page
    tags = Tags(page).found
    assert not [tag for tag, attributes in tags if "src" in attributes or tag in ("link", "base")]
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")


def test_every_number_of_the_page_leads_to_its_records(page, out):
    tags = Tags(page.replace(get_plotlyjs(), "")).found
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    records = [unquote(link) for link in links if link.endswith("record.json")]
    assert len(records) == 33
    assert all((out / record).resolve().is_file() for record in records)


def test_every_number_of_the_table_leads_to_its_records(table, out):
    ids = set(re.findall(r'<a id="([^"]+)">', table))
    links = re.findall(r"\]\(([^)]+)\)", table)
    assert {link[1:] for link in links if link.startswith("#")} == ids
    records = [unquote(link) for link in links if not link.startswith("#")]
    assert len(records) == 33
    assert all((out / record).resolve().is_file() for record in records)


def test_the_page_holds_every_record_whole(page, runs):
    embedded = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    found = [json.loads(html.unescape(text)) for text in embedded]
    good = [path for path in runs.glob("*/record.json") if path.parent.name != "damaged"]
    written = [json.loads(path.read_text()) for path in good]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, written))


def test_a_page_that_would_be_too_large_links_to_records_instead(tmp_path):
    notes = ["x" * 400_000]
    for seed in range(4):
        save(tmp_path / "runs" / str(seed), record("gru", seed, departures=notes))
    content = read_content(tmp_path / "runs")
    page = page_html(content, tmp_path)
    assert len(page.encode()) < MAX_BYTES
    assert page.count("Left out to keep this page small") > 0
    assert page.count("record.json</a>") == 4


def test_records_keep_to_their_budget_however_many_are_left_out(tmp_path):
    for seed in range(60):
        notes = ["é" * (100 if seed % 2 else 5000)]
        save(tmp_path / "runs" / str(seed), record("gru", seed, departures=notes))
    groups = read_content(tmp_path / "runs").groups
    least = len(records_html(groups, tmp_path, 0).encode())
    embedded = []
    for more in (0, 10_000, 60_000):
        found = records_html(groups, tmp_path, least + more)
        assert len(found.encode()) <= least + more
        assert found.count("record.json</a>") == 60
        embedded.append(found.count("<pre>"))
    # A large one takes 12,000 bytes or so: where it does not fit, smaller ones behind it do.
    assert embedded[0] == 0 < embedded[1] < embedded[2]


def test_damaged_records_are_named_on_the_page_and_in_the_table(page, table):
    for text in (page, table):
        assert "damaged/record.json" in text
        assert "is not JSON" in text


def test_the_page_begins_with_the_summary_then_tables_then_figures(page):
    parts = ["<h1>", "is best with", "<h2>Tables", "<h2>Figures", "<h2>Files that", "<h2>Records"]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    for title in ("tables", "figures", "records"):
        assert page.index(f'<a href="#{title}">') < page.index(f'<section id="{title}">')


def test_the_same_records_give_the_same_bytes(tmp_path):
    save(tmp_path / "runs" / "a", record("gru", 0))
    save(tmp_path / "runs" / "b", record("gru", 1))
    first = write_report(tmp_path / "runs", tmp_path / "out")
    before = {path: path.read_bytes() for path in (first.page, first.table, *first.figures)}
    shutil.rmtree(tmp_path / "out")
    assert write_report(tmp_path / "runs", tmp_path / "out") == first
    assert {path: path.read_bytes() for path in before} == before


def test_nothing_in_a_record_becomes_markup(tmp_path):
    made = record(EVIL, experiment=f"x{EVIL.replace('/', '')}", preset=EVIL, commit=EVIL)
    save(
        tmp_path / "runs" / "a'<b>",
        Record(**{**vars(made), "departures": [EVIL]}),
        log_rows("gru", 4),
    )
    save(tmp_path / "runs" / "b", record("gru", status="failed", error=EVIL))
    entry = {"value": 0.5, "spread": 0.1, "source": EVIL}
    save(tmp_path / "runs" / "c", record(EVIL, reported={"accuracy@32": entry}))
    save(tmp_path / "runs" / "d", record("gru", overrides={EVIL: EVIL}, hardware={"cpu": EVIL}))
    save(
        tmp_path / "runs" / "e",
        Record(**{**vars(speed_record(EVIL, {20: [1.0]})), "hardware": {"cpu": EVIL}}),
    )
    (tmp_path / "runs" / "f<i>").mkdir()
    (tmp_path / "runs" / "f<i>" / "record.json").write_text(EVIL)
    files = write_report(tmp_path / "runs", tmp_path / "out")
    page = files.page.read_text().replace(get_plotlyjs(), "")
    tags = Tags(page).found
    assert {"img", "b", "i"}.isdisjoint(tag for tag, _ in tags)
    assert not [a for _, a in tags if any(name.startswith("on") for name in a)]
    assert not [a for tag, a in tags if tag == "a" and "javascript:" in a["href"]]
    assert page.count("<script") == page.count("</script>") == 3
    assert all(path.parent == tmp_path / "out" / "figures" for path in files.figures)
    table = files.table.read_text()
    assert "<img" not in table
    assert "[a](javascript" not in table.replace(r"\[a\]", "")


def test_only_unfinished_or_only_damaged_runs_still_make_a_page(tmp_path):
    save(tmp_path / "a" / "run", record("gru", status="running", epochs=0, metrics={}))
    (tmp_path / "b" / "run").mkdir(parents=True)
    (tmp_path / "b" / "run" / "record.json").write_text("[]")
    first = write_report(tmp_path / "a", tmp_path / "a-out")
    second = write_report(tmp_path / "b", tmp_path / "b-out")
    assert "Not finished, and in no mean: 1 run" in first.page.read_text()
    assert "run/record.json" in second.page.read_text()
    assert first.figures == second.figures == ()
    assert "<h2>Figures" not in first.page.read_text()


def test_an_empty_folder_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"holds no record.json; train first"):
        write_report(tmp_path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    save(tmp_path / "runs" / "a", record("gru", metrics={}))
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OSError, match=r"cannot write .*out: a file stands where"):
        write_report(tmp_path / "runs", tmp_path / "out")


PLACES = [
    "name",
    "preset",
    "seed",
    "recipe",
    "overrides",
    "reported",
    "departures",
    "commit",
    "hardware",
    "seconds",
    "epochs",
    "status",
    "error",
    "metrics",
    "recipe/task",
    "recipe/aggregator",
    "recipe/training",
    "recipe/task/bits",
    "recipe/task/max_train_size",
    "recipe/aggregator/options",
    "recipe/training/epochs",
    "reported/accuracy@32",
    "metrics/accuracy",
    "reported/accuracy@32/value",
    "reported/accuracy@32/source",
    "metrics/accuracy/32",
    "metrics/accuracy@32",
    "metrics/num_parameters",
    "metrics/seconds_per_epoch_by_size",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=3,
)


def read_unchecked(folder):
    """A record as it is read outside of tests, where nobody compares types."""
    made = object.__new__(Record)
    for name, value in json.loads((folder / "record.json").read_text()).items():
        object.__setattr__(made, name, value)
    return made


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(PLACES), VALUES)
def test_whatever_stands_in_a_record_it_is_shown_or_named(tmp_path, place, value):
    made = json.loads(json.dumps(vars(record("gru"))))
    inner = made
    *path, last = place.split("/")
    for key in path:
        inner = inner[key]
    inner[last] = value
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    (folder / "record.json").write_text(json.dumps(made))
    with mock.patch.object(Record, "read", read_unchecked):
        content = read_content(tmp_path)
    assert len(content.groups) + len(content.damaged) == 1
    assert page_html(content, tmp_path)
    assert report_markdown(content, tmp_path)
