"""Each figure shows what the paper's does, from the groups that it compares."""

import pytest
from lab.report.synthetic import OURS, log_rows, recipe, record, save, speed_record, sweep_record

from treefold.lab.report import figures
from treefold.lab.report.names import in_order, style_of
from treefold.lab.runs import load_groups


def loaded(folder, records, rows=()):
    for place, made in enumerate(records):
        save(folder / str(place), made, list(rows))
    return in_order(load_groups(folder)[0])


def means(line):
    return [each.mean for each in line.points.values()]


@pytest.fixture
def standard(groups):
    return [g for g in groups if (g.experiment, g.variant) == ("second-minimum", "standard")]


def test_accuracy_has_a_line_for_each_row_the_published_points_and_the_constant(standard):
    figure = figures.accuracy(standard)
    names = [line.label for line in figure.lines if line.label]
    assert names == ["Best constant answer", *(style_of(group).label for group in standard)]
    diamonds = [line for line in figure.lines if line.marker == "D"]
    assert [list(line.points) for line in diamonds] == [[32, 200]] * 6
    assert means(diamonds[0]) == [0.998, 0.912]
    assert figure.rule == (16, "largest in training: 16")
    last = figure.lines[1].points[200]
    assert last[:3] == pytest.approx((OURS["gru"][2], 0.878, 0.882))


def test_balanced_answers_have_a_figure_of_their_own_without_a_constant(tmp_path):
    metrics = {"balanced_accuracy": {"16": 0.9, "1000": 0.5}}
    figure = figures.accuracy(
        loaded(tmp_path, [record("gru", metrics=metrics)]), "balanced_accuracy"
    )
    assert figure.slug == "balanced-second-minimum-standard"
    assert [line.label for line in figure.lines] == ["GRU"]


def test_a_sweep_has_a_line_for_each_weight(tmp_path):
    figure = figures.accuracy(loaded(tmp_path, [sweep_record(power) for power in range(3)]))
    assert [line.label for line in figure.lines][1:] == [
        *("λ\u00a0=\u00a01", "λ\u00a0=\u00a00.1", "λ\u00a0=\u00a00.01")
    ]


def test_seconds_are_drawn_beside_the_papers(tmp_path):
    groups = loaded(tmp_path, [speed_record("gru", {20: [18.0, 20.0], 200: [80.0]})])
    figure = figures.speed(groups)
    ours, theirs = figure.lines
    assert (ours.label, means(ours), ours.points[20].low) == ("GRU", [19.0, 80.0], 18.0)
    assert (theirs.label, means(theirs), theirs.marker) == ("", [46.6, 397.2], "D")
    assert (figure.log, figure.caption) == (
        *("xy", "Bands: the range over runs. Diamonds: published."),
    )


def test_errors_on_larger_graphs_are_drawn_by_size(tmp_path):
    ratios = {"test": -1.5, "extrapolation-25-29": -0.5, "extrapolation-20-24": 700.0}
    made = record("pna-16", experiment="multi-task", metrics={"log10_ratio": ratios})
    figure = figures.ratio(loaded(tmp_path, [made]))
    constant, ours, theirs = figure.lines
    assert (constant.label, means(constant)) == ("Constant answer", [0.0, 0.0])
    assert ([*ours.points], means(ours)) == ([22.0, 27.0], [700.0, -0.5])
    assert (theirs.marker, means(theirs)[0]) == ("D", -1.84)
    assert figure.limits[1] < 2


def test_training_is_drawn_by_epoch_with_the_range_over_seeds(standard):
    figure = figures.training(standard)
    assert (figure.slug, figure.y) == ("validation-accuracy-second-minimum-standard", "accuracy")
    assert len(figure.lines) == 6
    points = figure.lines[0].points
    assert list(points) == list(range(1, 61))
    assert points[60].low < points[60].high


def test_a_long_training_is_thinned_to_its_ends(tmp_path):
    (line,) = figures.training(loaded(tmp_path, [record("gru")], log_rows("gru", 1000))).lines
    assert len(line.points) < 260
    assert (min(line.points), max(line.points)) == (1, 1000)


def test_laws_that_hold_by_construction_are_not_drawn(standard):
    found = figures.laws(standard)
    assert [figure.title for figure in found] == ["Violation of associativity", "Violation of swap"]
    assert [line.label for line in found[0].lines] == ["Binary-GRU-Assoc", "Binary-GRU"]


@pytest.mark.parametrize("make", [figures.accuracy, figures.speed, figures.ratio, figures.training])
def test_without_numbers_there_is_no_figure(tmp_path, make):
    assert make(loaded(tmp_path, [record("gru", metrics={})])) is None


def test_tasks_that_differ_have_no_constant_answer_in_common(tmp_path):
    parity = {**recipe("sum"), "task": {"name": "parity", "max_train_size": 16}}
    found = figures.accuracy(loaded(tmp_path, [record("gru"), record("sum", recipe=parity)]))
    assert "Best constant answer" not in [line.label for line in found.lines]


def test_a_spark_has_the_lines_that_are_wanted_or_all(standard):
    figure = figures.training(standard)
    colours = {line.label: line.colour for line in figure.lines}
    one = figures.spark(figure, ["GRU"])
    assert [colour for colour in colours.values() if colour in one] == [colours["GRU"]]
    assert all(colour in figures.spark(figure, ["other"]) for colour in colours.values())
