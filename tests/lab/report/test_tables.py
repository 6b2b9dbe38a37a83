"""The tables, word by word."""

import dataclasses

from lab.report.synthetic import DEPARTURE, SCALED, record, save, speed_record

from treefold.lab.report.content import read_content
from treefold.lab.report.table import Column, Table, table_html, table_markdown
from treefold.lab.report.table_notes import in_ranges
from treefold.lab.report.text import Link


def markdown_of(folder, title):
    (table,) = [table for table in read_content(folder).tables if table.title == title]
    return table_markdown(table).splitlines()


def test_ours_beside_the_papers_with_seeds_epochs_and_departures(tmp_path):
    for seed in range(3):
        for row in ("gru", "sum"):
            save(tmp_path / f"{row}-{seed}", record(row, seed))
    assert markdown_of(tmp_path, "Accuracy: second-minimum") == [
        "## Accuracy: second-minimum",
        "",
        "Mean ± standard deviation over seeds (lowest to highest). Bold: the highest mean of its "
        r"preset. The paper's values: tab:2min\_1k\_baselines; Δ: ours − paper.",
        "",
        "| aggregator | preset | sizes 1–16: ours | sizes 1–16: paper | sizes 1–16: Δ "
        "| size 32: ours | size 32: paper | size 32: Δ "
        "| size 200: ours | size 200: paper | size 200: Δ | parameters | s/epoch | notes |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
        "| GRU (recurrent) | [standard](#records-1) (60 epochs, 3 seeds) "
        "| [**0.995 ± 0.002**](#records-1) (0.993 to 0.997) | 0.996 ± 0.005 | [−0.001](#records-1) "
        "| [**0.990 ± 0.002**](#records-1) (0.988 to 0.992) | 0.998 ± 0.005 | [−0.008](#records-1) "
        "| [**0.880 ± 0.002**](#records-1) (0.878 to 0.882) | 0.912 ± 0.005 | [−0.032](#records-1) "
        "| [134,920](#records-1) | [10.0](#records-1) | 1 |",
        "| Sum (fixed) | [standard](#records-2) (60 epochs, 3 seeds) "
        "| [0.800 ± 0.002](#records-2) (0.798 to 0.802) | 0.845 ± 0.005 | [−0.045](#records-2) "
        "| [0.200 ± 0.002](#records-2) (0.198 to 0.202) | 0.261 ± 0.005 | [−0.061](#records-2) "
        "| [0.040 ± 0.002](#records-2) (0.038 to 0.042) | 0.045 ± 0.005 | [−0.005](#records-2) "
        "| [134,920](#records-2) | [10.0](#records-2) | 1 |",
        "",
        "Notes, where a recipe departs from the published one:",
        "",
        f"1. {DEPARTURE}",
    ]


def test_each_preset_has_its_own_best(tmp_path):
    for preset, rows in {"standard": ("gru", "sum"), "quick": ("max", "sum")}.items():
        for row in rows:
            save(tmp_path / f"{preset}-{row}", record(row, 1, preset))
    lines = markdown_of(tmp_path, "Accuracy: second-minimum")
    strong = [line.split(" | ")[:2] for line in lines if "**" in line]
    assert [(row, preset.split("]")[0]) for row, preset in strong] == [
        ("| GRU (recurrent)", "[standard"),
        ("| Max (fixed)", "[quick"),
    ]


def test_the_exact_monoid_does_not_compete(tmp_path):
    save(tmp_path / "oracle", record("oracle", metrics={"accuracy@32": 1.0}, reported={}))
    for row in ("gru", "sum"):
        save(tmp_path / row, record(row, 1))
    lines = markdown_of(tmp_path, "Accuracy: second-minimum")
    assert "[1.000](#records-1)" in lines[6]
    assert "[**0.990**](#records-2)" in lines[7]


def test_missing_numbers_are_dashes(tmp_path):
    save(tmp_path / "a", record("gru", 1, metrics={"accuracy@32": 0.5}))
    save(tmp_path / "b", record("my-own", 1, reported={}, departures=[]))
    gru, own = markdown_of(tmp_path, "Accuracy: second-minimum")[6:8]
    assert "| – | 0.996 ± 0.005 | – | [0.500](#records-1) | 0.998 ± 0.005 | [−0.498](#" in gru
    assert "[**0.800**](#records-2) | – | – |" in own
    assert own.endswith("| – |")


def test_a_seed_that_ran_twice_is_one_seed_in_two_runs(tmp_path):
    for place in ("a", "b"):
        save(tmp_path / place, record("gru", 1))
    assert "(60 epochs, 1 seed in 2 runs)" in markdown_of(tmp_path, "Accuracy: second-minimum")[6]


def test_seconds_beside_the_papers(tmp_path):
    save(tmp_path / "a", speed_record("gru", {20: [4.0, 5.0], 50: [7.0], 200: [45.0]}))
    save(tmp_path / "b", speed_record("sum", {20: [1.0], 200: [2.0]}))
    assert markdown_of(tmp_path, "Seconds per epoch: set-speed")[2:] == [
        "Mean over repetitions (lowest to highest). 65536 sets an epoch, in batches of 256; on "
        r"A Processor, 2 cores. The paper's GPU: subsec:2min, Efficiency; fig:2min\_speedtest.",
        "",
        "| aggregator | preset | seconds at size 20: ours | seconds at size 20: paper's GPU "
        "| seconds at size 20: ours / paper | seconds at size 200: ours "
        "| seconds at size 200: paper's GPU | seconds at size 200: ours / paper "
        "| size 200 / size 20 | notes |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        "| GRU (recurrent) | [standard](#records-1) (1 seed) "
        "| [4.50](#records-1) (4.00 to 5.00) | 46.6 ± 0.5 | [0.10](#records-1) "
        "| [45.00](#records-1) | 397.2 ± 1.3 | [0.11](#records-1) | [10.0](#records-1) | 1 |",
        "| Sum (fixed) | [standard](#records-2) (1 seed) "
        "| [1.00](#records-2) | – | – | [2.00](#records-2) | – | – | [2.0](#records-2) | 1 |",
        "",
        "Notes, where a recipe departs from the published one:",
        "",
        f"1. {SCALED}",
    ]


def test_unfinished_runs_are_listed_with_what_they_reached(content):
    (table,) = [t for t in content.tables if t.title == "Runs that are not finished"]
    assert table_markdown(table).splitlines()[-1] == (
        "| second-minimum | GRU | paper | [0](#records-1) | stopped | 137 of 1000 "
        "| [best validation 0.990 at epoch 137](#records-1) | stopped by SIGTERM |"
    )


def test_an_unfinished_run_with_metrics_shows_them_and_no_mean(tmp_path):
    save(tmp_path, record("gru", 1, status="failed", error="loss is nan at step 7"))
    (table,) = read_content(tmp_path).tables
    row = table_markdown(table).splitlines()[-1]
    assert "size 200 0.880 (paper 0.912)" in row
    assert row.endswith("| loss is nan at step 7 |")


def test_notes_are_numbered_in_ranges():
    assert in_ranges([1, 2, 3, 7, 9, 10]) == "1–3, 7, 9–10"
    assert in_ranges([]) == ""


def test_heads_that_span_columns_are_one_cell_in_html():
    columns = (Column("row"), Column("ours", "size 32", True), Column("paper", "size 32", True))
    table = Table("T", "C", columns, (((Link("a", "records-1"),), (), ("2",)),), ("A & B",))
    assert table_html(table) == (
        '<h3>T</h3>\n<p>C</p>\n<div class="scroll"><table>\n<thead>'
        '<tr><th rowspan="2">row</th><th colspan="2" class="over">size 32</th></tr>'
        '<tr><th class="number">ours</th><th class="number">paper</th></tr></thead>\n<tbody>\n'
        '<tr><td><a href="#records-1">a</a></td><td class="number">–</td>'
        '<td class="number">2</td></tr>\n</tbody></table></div>\n'
        '<p class="notes">Notes, where a recipe departs from the published one:</p>'
        '<ol class="notes"><li>A &amp; B</li></ol>\n'
    )


def on(record, *, load=None, **hardware):
    changed = {**record.hardware, "threads": 2, "load": load, **hardware}
    return dataclasses.replace(record, hardware=changed)


def test_times_of_two_machines_or_loads_share_no_column(tmp_path):
    seconds = {20: [1.0], 200: [2.0]}
    quiet = {"gru": {"load": 2.1}, "pna": {"load": None}}  # 2.1: its own threads, from before
    others = {"sum": {"load": 4.0}, "max": {"cpu": "Another"}}
    for row, changes in {**quiet, **others}.items():
        save(tmp_path / row, on(speed_record(row, seconds), **changes))
    tables = [t for t in read_content(tmp_path).tables if "Seconds" in t.title]
    rows = {t.caption.partition("; on ")[2].partition(".")[0]: len(t.rows) for t in tables}
    machine = "A Processor, 2 cores, 2 threads"
    assert rows == {machine: 2, "Another, 2 cores, 2 threads": 1, f"{machine}, load 4": 1}


def test_seconds_of_training_are_shown_where_all_rows_were_trained_alike(tmp_path):
    save(tmp_path / "gru", on(record("gru")))
    save(tmp_path / "sum", on(record("sum"), cpu="Another"))
    lines = markdown_of(tmp_path, "Accuracy: second-minimum")
    assert "No seconds per epoch: not all rows were trained on one machine" in lines[2]
    assert "s/epoch" not in lines[4]
    assert "| s/epoch |" in "".join(markdown_of(tmp_path / "gru", "Accuracy: second-minimum"))
