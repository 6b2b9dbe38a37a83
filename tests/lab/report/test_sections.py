"""The page says the main thing first and the rest where only who asks will read it."""

import dataclasses
import re

import pytest
from lab.report.synthetic import DEPARTURE, record, save, speed_record, sweep_record

from treefold.lab.experiments import where
from treefold.lab.report.names import in_order, slug_of
from treefold.lab.report.sections import report_page
from treefold.lab.report.tables import compared, score_table
from treefold.lab.runs import load_groups


def page_of(folder, records):
    for place, made in enumerate(records):
        save(folder / str(place), made)
    return report_page(*load_groups(folder))


def columns_of(table):
    return {head: [cell.text for cell in cells] for head, cells in table.columns.items()}


def test_sections_follow_the_paper_and_unfinished_runs_come_last(content):
    assert [section.title for section in content.parts] == [
        *("Second minimum", "Weight of the associativity loss", "Seconds per epoch"),
        "Smoke and unfinished runs",
    ]
    unfinished, damaged = content.parts[-1].shown
    assert [[run.record.status for run in g.runs] for g in unfinished.records] == [["stopped"]]
    assert damaged.notes[0].startswith("damaged: record.json is not JSON")


def test_unfinished_runs_say_how_far_they_came_and_records_what_departs(page):
    plain = " ".join(re.sub("<[^>]+>", "", page).split())
    assert (
        "Second minimum, GRU, paper: seed 0 (stopped after 137 of 1000 epochs: stopped by SIGTERM)"
        in plain
    )
    assert f"Departures: {DEPARTURE}" in plain


def test_the_overview_has_the_best_learned_fixed_and_published_number(content):
    (overview,) = content.tables
    row, *_ = overview.rows()
    assert [(cell.text, cell.small) for cell in row[:4]] == [
        ("Second minimum", "accuracy, size 200\u00a0↑"),
        *(("0.880", "GRU"), ("0.120", "PNA"), ("0.912", "GRU")),
    ]
    assert [cell.mark for cell in row[1:4]] == ["best", "", ""]
    assert "<path" in row[4].svg


def test_the_sentence_is_what_a_person_would_say(content):
    assert [section.sentence for section in content.parts[:3]] == [
        "GRU is right 88 % of the time on sets of 200, after training on at most 16; PNA, "
        "the best fixed one, 12 %.",
        "λ\u00a0=\u00a01 is right 75 % of the time on sets of 200, after training on at most 16.",
        "Binary-GRU-Assoc is fastest with 5.1 ± 0.1 (seconds per epoch, size 200); PNA, the best "
        "fixed one, 7.1 ± 0.1.",
    ]


def test_a_sweep_without_a_winner_says_so(tmp_path):
    made = []
    for power in range(4):
        for seed in range(2):
            one = sweep_record(power, seed)
            metrics = {**one.metrics, "accuracy@200": 0.5 + 0.1 * seed + 0.01 * power}
            made.append(record(one.name.split("/")[1], seed, experiment="second-minimum-lambda",
                               recipe=one.recipe, reported={}, metrics=metrics))  # fmt: skip
    (section,) = page_of(tmp_path, made).parts
    assert (
        section.sentence == "No weight stands out: accuracy lies between 0.55 and 0.58 (size 200)."
    )


def test_published_numbers_stand_beside_ours_and_the_best_are_marked(content):
    (table,) = content.parts[0].tables
    found = columns_of(table)
    assert list(found)[:7] == [
        "aggregator",
        *(f"{over}, {head}" for over in ("sizes 1–16", "size 32", "size 200") for head in
          ("ours", "paper")),
    ]  # fmt: skip
    assert found["size 200, ours"][:2] == ["0.880", "0.750"]
    assert found["size 200, paper"][:2] == ["0.912", "0.822"]
    assert found["epochs"] == ["60"] * 6
    marks = [cell.mark for cell in table.columns["size 200, ours"]]
    assert marks == ["best", "second", "", "", "", ""]
    assert table.note.endswith("Published: the paper's Table 2.")


def test_an_error_is_better_the_lower_it_is_and_an_exact_monoid_takes_no_mark(tmp_path):
    made = {"oracle": -9.0, "gru": -2.5, "pna-16": -2.75}
    for row, error in made.items():
        metrics = {"log10_mse@average": error, "log10_mse@sssp": error - 1}
        save(tmp_path / row, record(row, experiment="multi-task", metrics=metrics, reported={}))
    groups = in_order(load_groups(tmp_path)[0])
    (cells,) = compared(groups, "log10_mse@average").values()
    assert [(c.text, c.mark) for c in cells] == [
        ("−9.00", ""),
        ("−2.50", "second"),
        ("−2.75", "best"),
    ]
    (table,) = score_table(groups)
    assert [*table.columns][:3] == ["aggregator", "average", "shortest paths"]


def test_the_headline_is_the_preset_with_most_rows_without_changes(tmp_path):
    rows = ("gru", "sum")
    made = [*(record(row, preset="quick") for row in rows), record("gru", preset="paper")]
    made.append(record("gru", preset="quick", overrides={"training.epochs": 90}))
    (section,) = page_of(tmp_path, made).parts
    assert section.about.endswith("Preset quick.")
    folded = [part.title for part in section.shown]
    assert folded == [
        *(
            "Preset paper",
            "Preset quick, changed",
            "Records, and departures from the published recipe",
        )
    ]
    assert section.parts[1].tables[0].columns["aggregator"][0].small == "epochs=90"


def test_times_of_two_machines_do_not_share_a_table(tmp_path):
    ours = [speed_record(row, {20: [2.0], 200: [9.0]}) for row in ("gru", "sum")]
    slow = dataclasses.replace(ours[0], hardware={"cpu": "Another", "cores": 64})
    for place, made in enumerate([*ours, slow]):
        save(tmp_path / str(place), made)
    (section,) = report_page(*load_groups(tmp_path)).parts
    machines = [table.note for part in (section, *section.parts) for table in part.tables if table]
    assert all(note.count("cores") == 1 for note in machines), machines


def test_real_graphs_stand_side_by_side(tmp_path):
    for name, metric, scores in (
        ("zinc", "mae@test", {"gru": 0.3, "pna": 0.2, "mpnn-max": 0.25}),
        ("molhiv", "roc-auc@test", {"gru": 0.8, "pna": 0.7}),
    ):
        for row, score in scores.items():
            published = {metric: {"value": 0.19, "spread": 0.01, "source": "a table"}}
            made = record(row, experiment=name, metrics={metric: score},
                          reported=published if row == "pna" else {})  # fmt: skip
            save(tmp_path / name / row, made)
    page = report_page(*load_groups(tmp_path))
    (section,) = page.parts
    (table,) = section.tables
    found = columns_of(table)
    assert found["aggregator"] == ["MPNN (max)", "PNA", "GRU"]
    assert found["ZINC, mean absolute error ↓, ours"] == ["0.250", "0.200", "0.300"]
    assert found["MolHIV, ROC-AUC ↑, published"] == ["", "0.190", ""]
    marks = [cell.mark for cell in table.columns["ZINC, mean absolute error ↓, ours"]]
    assert marks == ["second", "best", ""]
    assert section.sentence.startswith("A learned aggregator is ahead on 1 of 2 data sets")
    links = [row[0].link for row in page.tables[0].rows()]
    assert links == [f"#{slug_of(part.title)}" for part in section.shown] == ["#zinc", "#molhiv"]


def test_smoke_runs_are_no_results(tmp_path):
    page = page_of(tmp_path, [record("gru", preset="smoke"), record("gru")])
    assert [section.title for section in page.parts] == [
        "Second minimum",
        "Smoke and unfinished runs",
    ]
    assert [part.title for part in page.parts[1].shown] == ["Smoke runs"]
    assert page.parts[0].about.endswith("Preset standard.")


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("accuracy@1-16", "sizes 1–16"),
        ("accuracy@balanced-1000", "balanced, size 1,000"),
        ("mae@test-last", "test, last epoch"),
        ("log10_mse@spectral-radius", "spectral radius"),
        ("accuracy@val", "val"),
    ],
)
def test_scores_are_named_in_words(metric, words):
    assert where(metric) == words
