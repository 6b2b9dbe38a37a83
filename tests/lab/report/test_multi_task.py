"""What the report says of the multi-task benchmark: targets beside the paper's, and ratios."""

import pytest
from lab.report.synthetic import record, save

from treefold.lab.report.content import read_content
from treefold.lab.report.draw_matplotlib import draw_files
from treefold.lab.report.table import table_markdown
from treefold.lab.report.text import as_markdown

RATIOS = {"test": -1.5, "extrapolation-25-29": -0.5, "extrapolation-20-24": -1.0}


def multi_task(row, average, seed=0):
    metrics = {
        "num_parameters": 8350,
        "seconds_per_epoch": 9.0,
        "log10_mse@sssp": average - 0.25,
        "log10_mse@average": average,
        "log10_ratio": {split: ratio + 0.1 * seed for split, ratio in RATIOS.items()},
        "log10_ratio_of_means": {split: ratio - 0.25 for split, ratio in RATIOS.items()},
    }
    reported = {"log10_mse@average": {"value": -3.0, "spread": None, "source": "tab:pna_table"}}
    return record(row, seed, experiment="multi-task", metrics=metrics, reported=reported)


@pytest.fixture
def content(tmp_path):
    for row, average in (("pna-16", -2.5), ("binary-gru", -2.75)):
        for seed in range(2):
            save(tmp_path / f"{row}-{seed}", multi_task(row, average, seed))
    return read_content(tmp_path)


def test_the_lowest_error_is_the_best_and_the_average_comes_first(content):
    (table,) = content.tables
    assert table.title == "log10 of the mean squared error: multi-task"
    assert [(column.head, column.over) for column in table.columns[2:6]] == [
        ("ours", "average"),
        ("paper", "average"),
        ("Δ", "average"),
        ("ours", "sssp"),
    ]
    words = table_markdown(table)
    assert "[**-2.75 ± 0.00**]" in words
    assert "[-2.50 ± 0.00]" in words
    assert "| -3.00 | [+0.25]" in words
    assert "Bold: the lowest mean of its preset." in words


def ratio_figures(content):
    return [figure for figure in content.figures if figure.slug.startswith("ratio")]


def test_both_readings_of_the_figure_are_drawn(content):
    _, of_means = ratio_figures(content)
    assert of_means.slug.startswith("ratio-of-means")
    assert of_means.caption.startswith("log10 of the mean error over the six targets")
    assert of_means.lines[1].y == (-1.25, -0.75)
    assert all(draw_files(figure)["svg"] for figure in ratio_figures(content))


def test_ratios_are_drawn_against_graph_sizes_beside_a_constant_answer(content):
    figure, _ = ratio_figures(content)
    assert figure.x.labels == ("20–24", "25–29")
    constant, *curves, published = figure.lines
    assert constant.y == (0.0, 0.0)
    assert {line.label for line in curves} == {"Binary-GRU", "PNA-16"}
    assert (published.label, published.x, published.y) == ("PNA-16, PNA's", (22, 27), (-1.84, -1.6))
    assert "Diamonds are PNA's, read off" in figure.caption
    for line in curves:
        assert line.x == (22.0, 27.0)
        assert line.y == pytest.approx((-0.95, -0.45))
        assert line.low == pytest.approx((-1.0, -0.5))


def test_a_damaged_ratio_costs_its_run_and_is_named(tmp_path):
    broken = multi_task("pna-16", -2.5)
    broken.metrics["log10_ratio"] = [1.0]
    save(tmp_path / "broken", broken)
    (damaged,) = read_content(tmp_path).damaged
    assert "`log10_ratio` is [1.0]; expected numbers by split" in damaged.reason


def orders(folder, averages):
    for row, average in averages.items():
        made = multi_task(row, average)
        name = {"pna-16": "pna", "mpnn-sum": "sum", "mpnn-max": "max"}.get(row, row)
        made.recipe["aggregator"] = {"name": name, "options": {}}
        if row == "gated-selection":
            made.reported.clear()
        save(folder / row, made)
    points = [point for paragraph in read_content(folder).summary for point in paragraph.points]
    said = [as_markdown(point) for point in points]
    return next((words for words in said if words.startswith("The paper's order")), None)


def test_the_papers_order_is_checked_against_single_fixed_aggregators(tmp_path):
    rows = {"binary-gru": -2.75, "gru": -2.5, "pna-16": -2.9, "mpnn-sum": -2.25, "gin": -2.0}
    assert orders(tmp_path / "holds", rows) == (
        "The paper's order holds: every learned aggregator is below every single fixed one on the "
        "average, by 0.25 at least (GRU ([-2.50](#records-1)) and MPNN (sum) "
        "([-2.25](#records-4)))."
    )
    assert orders(tmp_path / "broken", rows | {"gru": -2.1}) == (
        "The paper's order, every learned aggregator below every single fixed one on the average, "
        "holds for 3 of 4 pairs; furthest from it, by 0.15, are GRU ([-2.10](#records-1)) and "
        "MPNN (sum) ([-2.25](#records-4))."
    )
    assert orders(tmp_path / "alone", {"binary-gru": -2.75, "pna-16": -2.9}) is None
    ours = {"binary-gru": -2.75, "gin": -2.0, "gated-selection": -1.0}  # not a row of the paper's
    assert "holds: every learned" in orders(tmp_path / "more", ours)


def test_the_best_of_each_target_is_named_with_the_lowest_error(content):
    points = [as_markdown(p) for paragraph in content.summary for p in paragraph.points]
    assert points[0] == (
        "Average: Binary-GRU is best with [-2.75](#records-1); the best fixed aggregator is "
        "PNA-16 ([-2.50](#records-2))."
    )


def test_what_explodes_leaves_the_picture_and_is_named(tmp_path):
    wild = multi_task("mpnn-sum", -2.5)
    wild.metrics["log10_ratio"] = {"extrapolation-20-24": -1.0, "extrapolation-25-29": 50.9}
    save(tmp_path / "wild", wild)
    save(tmp_path / "tame", multi_task("pna-16", -2.5))
    figure, of_means = ratio_figures(read_content(tmp_path))
    assert figure.y.limits == pytest.approx((-1.84 - 0.142, 1.142))
    assert figure.caption.endswith("MPNN (sum) goes beyond the top, to 50.9.")
    assert "beyond the top" not in of_means.caption
