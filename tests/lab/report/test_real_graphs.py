"""What the report says of real graphs: best and last epoch beside the paper's, all side by side."""

import pytest
from lab.report.synthetic import record, save

from treefold.lab.report.content import read_content
from treefold.lab.report.table import table_markdown

PAPER = {"value": 0.188, "spread": 0.004, "source": "Corso et al. 2020, real-world table"}


def zinc(row, best, last):
    metrics = {"num_parameters": 95_111, "mae@test": best, "mae@test-last": last}
    reported = {"mae@test": PAPER, "mae@test-last": PAPER} if row == "pna" else {}
    return record(row, experiment="zinc-edges", metrics=metrics, reported=reported)


def mnist(row, accuracy):
    metrics = {"num_parameters": 108_457, "accuracy@test": accuracy, "accuracy@test-last": 0.9}
    return record(row, experiment="mnist", metrics=metrics, reported={})


@pytest.fixture
def content(tmp_path):
    runs = [zinc("pna", 0.25, 0.26), zinc("binary-gru", 0.24, 0.27), mnist("binary-gru", 0.95)]
    for place, run in enumerate(runs):
        save(tmp_path / str(place), run)
    return read_content(tmp_path)


def table_of(content, title):
    (found,) = [table for table in content.tables if table.title == title]
    return found


def test_the_lowest_error_is_the_best_and_the_best_epoch_comes_first(content):
    table = table_of(content, "Mean absolute error: zinc-edges")
    assert [(column.head, column.over) for column in table.columns[2:8]] == [
        (head, over)
        for over in ("test, best epoch on validation", "test, last epoch")
        for head in ("ours", "paper", "Δ")
    ]
    words = table_markdown(table)
    assert "[**0.240**]" in words
    assert "[**0.260**]" in words
    assert "| 0.188 ± 0.004 | [+0.062]" in words
    assert "Bold: the lowest mean" in words


def test_accuracies_of_splits_are_not_called_sizes(content):
    table = table_of(content, "Accuracy: mnist")
    heads = {column.over for column in table.columns} - {""}
    assert heads == {"test, best epoch on validation", "test, last epoch"}


def test_all_benchmarks_stand_side_by_side(content):
    table = content.tables[0]
    assert table.title == "Real graphs side by side"
    assert [column.over for column in table.columns[2:]] == [
        *["zinc-edges, mean absolute error"] * 3,
        *["mnist, accuracy"] * 3,
    ]
    lcm, pna = (line for line in table_markdown(table).splitlines() if "standard" in line)
    assert "[**0.240**]" in lcm
    assert "[0.950]" in lcm
    assert "[0.250]" in pna
    assert "| 0.188 ± 0.004 |" in pna


def test_one_benchmark_alone_needs_no_such_table(tmp_path):
    save(tmp_path / "one", zinc("pna", 0.25, 0.26))
    assert [table.title for table in read_content(tmp_path).tables] == [
        "Mean absolute error: zinc-edges"
    ]
