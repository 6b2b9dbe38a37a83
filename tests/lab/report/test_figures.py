"""Each figure shows what the paper's does, from the groups that it compares."""

import pytest
from lab.report.synthetic import OURS, log_rows, record, save, speed_record, sweep_record

from treefold.lab.report import figures
from treefold.lab.report.runs import load


def loaded(folder, records, rows=()):
    for place, made in enumerate(records):
        save(folder / str(place), made, list(rows))
    return load(folder)[0]


@pytest.fixture
def standard(groups):
    return [g for g in groups if (g.experiment, g.variant) == ("second-minimum", "standard")]


def test_accuracy_has_a_line_for_each_row_the_published_points_and_the_constant(standard):
    figure = figures.accuracy(standard)
    names = [line.label for line in figure.lines if line.label]
    assert names == ["Best constant answer", *(group.style.label for group in standard)]
    diamonds = [line for line in figure.lines if line.marker == "D"]
    assert [tuple(line.x) for line in diamonds] == [(32, 200)] * 6
    assert diamonds[0].y == (0.998, 0.912)
    assert figure.rule == (16, "largest in training: 16")
    assert list(figure.x.words) == ["1", "2", "4", "8", "16", "32", "64", "128", "200"]
    gru = figure.lines[1]
    assert dict(zip(gru.x, gru.y, strict=True))[200] == pytest.approx(OURS["gru"][2])
    assert (gru.low[-1], gru.high[-1]) == pytest.approx((0.878, 0.882))


def test_balanced_answers_have_a_figure_of_their_own_without_a_constant(tmp_path):
    metrics = {"balanced_accuracy": {"16": 0.9, "1000": 0.5}}
    figure = figures.accuracy(
        loaded(tmp_path, [record("gru", metrics=metrics)]), "balanced_accuracy"
    )
    assert figure.slug == "balanced-second-minimum-standard"
    assert [line.label for line in figure.lines] == ["GRU"]


def test_a_sweep_has_a_line_for_each_weight(tmp_path):
    figure = figures.accuracy(loaded(tmp_path, [sweep_record(power) for power in range(3)]))
    assert [line.label for line in figure.lines][1:] == ["λ = 1", "λ = 10⁻¹", "λ = 10⁻²"]


def test_seconds_are_drawn_beside_the_papers(tmp_path):
    groups = loaded(tmp_path, [speed_record("gru", {20: [18.0, 20.0], 200: [80.0]})])
    figure = figures.speed(groups)
    ours, theirs = figure.lines
    assert (ours.label, ours.y, ours.low) == ("GRU", (19.0, 80.0), (18.0, 80.0))
    assert (theirs.label, theirs.y, theirs.marker) == ("", (46.6, 397.2), "D")
    assert figure.y.limits[0] < 18 < 397 < figure.y.limits[1]


def test_errors_on_larger_graphs_are_drawn_by_size(tmp_path):
    ratios = {"test": -1.5, "extrapolation-25-29": -0.5, "extrapolation-20-24": 700.0}
    made = record("pna-16", experiment="multi-task", metrics={"log10_ratio": ratios})
    figure = figures.ratio(loaded(tmp_path, [made]))
    constant, ours, theirs = figure.lines
    assert (constant.label, ours.x, ours.y) == ("Constant answer", (22.0, 27.0), (700.0, -0.5))
    assert (theirs.marker, theirs.y[0]) == ("D", -1.84)
    assert list(figure.x.words) == ["20–24", "25–29"]
    assert figure.y.limits[1] < 2


def test_training_is_drawn_by_epoch_with_the_range_over_seeds(standard):
    figure = figures.training(standard)
    assert (figure.slug, figure.y.title) == (
        "validation-accuracy-second-minimum-standard",
        "accuracy",
    )
    assert len(figure.lines) == 6
    assert list(figure.lines[0].x) == list(range(1, 61))
    assert figure.lines[0].low != ()


def test_a_long_training_is_thinned_to_its_ends(tmp_path):
    (line,) = figures.training(loaded(tmp_path, [record("gru")], log_rows("gru", 1000))).lines
    assert len(line.x) < 260
    assert (line.x[0], line.x[-1]) == (1, 1000)


def test_laws_that_hold_by_construction_are_not_drawn(standard):
    found = figures.laws(standard)
    assert [figure.title for figure in found] == ["Violation of associativity", "Violation of swap"]
    assert [line.label for line in found[0].lines] == ["Binary-GRU-Assoc", "Binary-GRU"]


@pytest.mark.parametrize("make", [figures.accuracy, figures.speed, figures.ratio, figures.training])
def test_without_numbers_there_is_no_figure(tmp_path, make):
    assert make(loaded(tmp_path, [record("gru", metrics={})])) is None


def test_a_spark_goes_from_corner_to_corner(standard):
    line = figures.training(standard).lines[0]
    spark = figures.spark([line._replace(x=(0, 1), y=(0.0, 1.0))])
    assert 'points="2.0,27.0 118.0,3.0"' in spark
    assert figures.spark([]) == ""
