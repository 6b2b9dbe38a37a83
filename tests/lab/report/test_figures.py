"""Each figure shows the numbers of the records, at the right places."""

import pytest
from lab.report.synthetic import OURS, SCALED, SIZES, log_rows, record, save, sweep_record

from treefold.lab.report.content import read_content
from treefold.lab.report.figure import Line, log_axis, slug_of
from treefold.lab.report.figure_training import MAX_POINTS
from treefold.lab.report.styles import KNOWN


def figure(content, slug):
    (found,) = [figure for figure in content.figures if figure.slug == slug]
    return found


def lines_of(found):
    return {line.label: line for line in found.lines}


def test_accuracy_has_a_curve_with_the_range_over_seeds_for_each_aggregator(content):
    found = figure(content, "accuracy-second-minimum-standard")
    lines = lines_of(found)
    gru = lines["GRU"]
    assert gru.x == SIZES
    at_200 = gru.x.index(200)
    assert (gru.low[at_200], gru.y[at_200], gru.high[at_200]) == (0.878, 0.88, 0.882)
    for row, (inside, at_32, _) in OURS.items():
        line = lines[KNOWN[row].label]
        assert (line.y[0], line.y[line.x.index(32)]) == (inside, at_32)
        assert line.colour == KNOWN[row].colour
    assert found.note == "preset standard; 60 epochs, 3 seeds"


def test_accuracy_marks_training_powers_of_two_the_paper_and_the_constant_answer(content):
    found = figure(content, "accuracy-second-minimum-standard")
    assert [(rule.x, rule.label) for rule in found.rules] == [(16, "largest in training: 16")]
    assert found.x.ticks == (1, 2, 4, 8, 16, 32, 64, 128, 200)
    lines = lines_of(found)
    paper = lines["GRU, paper"]
    assert (paper.x, paper.y, paper.mode) == ((32, 200), (0.998, 0.912), "markers")
    assert paper.low == pytest.approx((0.993, 0.907))
    constant = lines["best constant answer"]
    assert constant.x == tuple(range(1, 201))
    assert constant.y[constant.x.index(200)] == pytest.approx(0.27926)
    assert "tab:2min_1k_baselines" in found.caption


def test_the_sweep_shows_accuracy_at_doubling_sizes_against_lambda(content):
    found = figure(content, "lambda-second-minimum-lambda-standard")
    lines = lines_of(found)
    assert found.x.ticks == pytest.approx([10.0**-power for power in range(7, -1, -1)])
    assert found.x.labels[0] == "10⁻⁷"
    shown = [line.label for line in found.lines if line.in_legend]
    assert shown == [f"sets of {n}" for n in (16, 32, 64, 128, 200)]
    assert lines["sets of 200"].y == pytest.approx([0.75 - 0.04 * p for p in range(7, -1, -1)])
    assert lines["sets of 200, λ = 0"].y == pytest.approx((0.43, 0.43))
    assert "Binary-GRU of second-minimum" in found.caption


def test_the_speed_figure_has_our_seconds_and_the_papers_with_their_source(content):
    found = figure(content, "seconds-set-speed-standard")
    lines = lines_of(found)
    assert lines["GRU"].x == (20, 50, 100, 200)
    assert lines["GRU"].y == pytest.approx((6.1, 12.1, 22.1, 42.1))
    assert lines["GRU"].low == pytest.approx((6.0, 12.0, 22.0, 42.0))
    assert lines["Binary-GRU-Assoc, paper's GPU"].y == (48.2, 79.4)
    assert lines["GRU, paper's GPU"].y == (46.6, 397.2)
    assert "fig:2min_speedtest" in found.caption
    assert "65536 sets an epoch, in batches of 256; on A Processor, 2 cores." in found.caption
    assert SCALED in found.caption


def test_published_seconds_are_those_that_the_record_brings(tmp_path):
    made = record("gru", experiment="set-speed", metrics={"seconds_per_epoch_by_size": {"20": [5]}})
    entry = {"value": 7.0, "spread": None, "source": "elsewhere"}
    save(tmp_path, made.__class__(**{**vars(made), "reported": {"seconds_per_epoch@20": entry}}))
    lines = lines_of(read_content(tmp_path).figures[0])
    assert lines["GRU, paper's GPU"].y == (7.0,)


def test_laws_are_drawn_for_those_who_log_them_and_not_where_they_hold_by_construction(content):
    found = figure(content, "violation-of-the-associativity-law-second-minimum-standard")
    lines = lines_of(found)
    assert lines.keys() == {"Binary-GRU-Assoc", "Binary-GRU"}
    assert max(lines["Binary-GRU"].y) == lines["Binary-GRU"].y[19] == 0.5
    assert found.y.log
    assert not [figure for figure in content.figures if "commutativity" in figure.slug]


def test_training_curves_fold_the_seeds_that_have_logs(content):
    line = lines_of(figure(content, "validation-accuracy-second-minimum-standard"))["GRU"]
    assert line.x == tuple(range(1, 61))
    assert line.high[0] - line.low[0] == pytest.approx(0.002)
    assert "training-loss-second-minimum-standard" in [f.slug for f in content.figures]


def test_an_unfinished_run_is_a_dotted_curve_that_says_so(content):
    (line,) = figure(content, "validation-accuracy-second-minimum-paper").lines
    assert line.label == "GRU, seed 0: stopped at 137 of 1000 epochs"
    assert line.dash == "dot"


def test_long_trainings_are_thinned_from_the_first_to_the_last_epoch(tmp_path):
    save(tmp_path, record("gru"), log_rows("gru", 1000))
    content = read_content(tmp_path)
    line = figure(content, "training-loss-second-minimum-standard").lines[0]
    assert (len(line.x), line.x[0], line.x[-1]) == (MAX_POINTS, 1, 1000)
    assert f"show {MAX_POINTS} of their epochs" in content.figures[-1].caption


def test_presets_are_never_in_one_figure(tmp_path):
    save(tmp_path / "a", record("gru"))
    save(tmp_path / "b", record("gru", preset="quick"))
    notes = [figure.note for figure in read_content(tmp_path).figures]
    assert notes == ["preset standard; 60 epochs, 1 seed", "preset quick; 60 epochs, 1 seed"]


def test_a_figure_says_so_where_rows_had_different_effort(tmp_path):
    save(tmp_path / "a", record("gru", 0))
    save(tmp_path / "b", record("sum", 0, epochs=20))
    (found,) = read_content(tmp_path).figures
    assert found.note == "preset standard; 60 epochs, 1 seed; Sum: 20 epochs, 1 seed"


def test_figures_without_data_are_left_out(tmp_path):
    save(tmp_path, sweep_record(0))
    assert [f.slug for f in read_content(tmp_path).figures] == [
        "lambda-second-minimum-lambda-standard"
    ]


def test_logarithmic_axes_have_ticks_that_fit_their_span():
    narrow = log_axis("s", [Line("", (1, 2), (3.0, 30.0), "")])
    assert narrow.ticks == (5, 10, 20)
    wide = log_axis("s", [Line("", (1, 2), (1e-4, 1.0), "")])
    assert wide.labels == ("0.0001", "0.001", "0.01", "0.1", "1")


def test_a_slug_is_a_harmless_file_name():
    assert slug_of("Accuracy", "../../etc/passwd", "ü<b>") == "accuracy-etc-passwd-b"


def test_balanced_accuracy_has_a_figure_and_columns_of_its_own(tmp_path):
    for seed, low in ((0, 0.5), (1, 0.7)):
        made = record("gru", seed)
        by_size = {"16": 0.9, "1000": low}
        made.metrics.update({"balanced_accuracy": by_size, "accuracy@balanced-1000": low})
        save(tmp_path / str(seed), made)
    found = read_content(tmp_path)
    line = lines_of(figure(found, "balanced-second-minimum-standard"))["GRU"]
    assert (line.x, line.y, line.low, line.high) == (
        (16, 1000),
        pytest.approx((0.9, 0.6)),
        pytest.approx((0.9, 0.5)),
        pytest.approx((0.9, 0.7)),
    )
    heads = [column.over for column in found.tables[0].columns]
    assert heads.index("balanced, size 1000") > heads.index("size 200")
