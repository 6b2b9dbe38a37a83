"""The aggregator to pick follows from the numbers, and the page has how sure that is."""

import json
import re

import pytest
from lab.experiments.made_up import FACTS, run, save, seeds

from treefold.lab.experiments import Judgement
from treefold.lab.report import write_comparison
from treefold.lab.runs import load_groups


def compared(folder, runs):
    return Judgement(load_groups(save(folder, runs))[0])


def told(folder, runs, capsys):
    page = write_comparison(save(folder, runs)).read_text()
    return " ".join(capsys.readouterr().out.split()), page


def test_what_is_clearly_best_is_picked_though_it_is_slow(tmp_path, capsys):
    runs = [
        *seeds("gru", (0.90, 0.91, 0.92), 9.0, laws={"swap": 0.3}),
        *seeds("max", (0.80, 0.81, 0.82), 0.5),
        *seeds("sum", (0.70, 0.71, 0.72), 0.4),
    ]
    words, page = told(tmp_path, runs, capsys)
    pick = "Pick GRU: it is best on validation, with accuracy 0.910 ± 0.010, clearly over 3 seeds."
    assert pick in words
    assert pick in page
    assert "GRU, the best learned one, is better than Max." in page
    assert "violation of swap" in page


def test_of_those_that_seeds_cannot_tell_apart_the_fastest_is_picked(tmp_path, capsys):
    runs = [
        *seeds("gru", (0.85, 0.91, 0.88), 9.0),
        *seeds("pna", (0.86, 0.89, 0.87), 1.0),
        *seeds("max", (0.60, 0.61, 0.62), 0.1),
    ]
    words, page = told(tmp_path, runs, capsys)
    assert "Pick PNA: 3 seeds cannot tell it from GRU (0.880 ± 0.030 on validation)" in words
    assert "which takes 9.0 times as long." in words
    assert re.findall("<span>(the best|not told apart|worse)<", page) == [
        *("the best", "not told apart", "worse")
    ]
    assert "Told apart by a paired t-test over seeds, at 95 %" in page
    assert "GRU, the best learned one, cannot be told from PNA." in page


def test_the_test_over_seeds_is_paired(tmp_path):
    # Far apart between seeds, and yet always ahead by the same.
    found = compared(
        tmp_path, [*seeds("max", (0.5, 0.7, 0.9), 1.0), *seeds("sum", (0.47, 0.67, 0.88), 1.0)]
    )
    best, worse = found.rows
    assert best.row == "max"
    assert found.sure(best, worse)
    assert not found.sure(worse, best)


def test_two_seeds_must_agree_far_better_than_five_to_be_sure(tmp_path):
    ahead = (0.02, 0.04, 0.03, 0.02, 0.04)
    for count, sure in ((2, False), (5, True)):
        runs = [*seeds("max", [0.8] * count, 1.0)]
        runs += seeds("sum", [0.8 - gap for gap in ahead[:count]], 1.0)
        found = compared(tmp_path / str(count), runs)
        assert found.sure(*found.rows) == sure


def test_test_scores_do_not_choose(tmp_path):
    runs = [*seeds("max", (0.90, 0.91, 0.92), 1.0, test=0.5)]
    assert (
        compared(tmp_path, [*runs, *seeds("sum", (0.7, 0.71, 0.72), 1.0, test=0.99)]).pick().row
        == "max"
    )


def test_lower_errors_are_better(tmp_path):
    facts = FACTS | {"metric": "mae", "kind": "regression"}
    found = compared(
        tmp_path,
        [
            *seeds("max", (0.30, 0.31, 0.32), 1.0, facts=facts),
            *seeds("binary-gru", (0.10, 0.11, 0.12), 1.0, facts=facts),
        ],
    )
    assert [group.row for group in found.rows] == ["binary-gru", "max"]
    assert found.pick().row == "binary-gru"


def test_a_difference_of_an_answer_or_two_is_none(tmp_path, capsys):
    facts = FACTS | {"answers": {"train": 100, "val": 20, "test": 20}}
    runs = [
        *seeds("gru", (0.95, 0.95, 0.95), 5.0, facts=facts),
        *seeds("sum", (0.90, 0.90, 0.90), 1.0, facts=facts),
    ]
    words, page = told(tmp_path, runs, capsys)
    assert "Pick Sum: 3 seeds cannot tell it" in words
    assert "Only 20 answers in validation and 20 in the test" in page


def test_one_seed_is_a_doubt_and_equal_scores_are_still_equal(tmp_path, capsys):
    runs = [run("gru", 0, 0.9, 5.0), run("mean", 0, 0.9, 0.1), run("max", 0, 0.89, 0.01)]
    words, page = told(tmp_path, runs, capsys)
    assert "Pick Mean: it is as good as GRU" in words
    assert "One seed cannot tell luck from merit" in page


def test_curves_that_still_rise_are_a_doubt(tmp_path, capsys):
    runs = seeds("max", (0.90, 0.91, 0.92), 1.0)
    for made in runs:
        made.metrics["best_epoch"] = 30
    assert (
        "Still getting better at the end: Max. More epochs"
        in told(tmp_path / "late", runs, capsys)[1]
    )
    for made in runs:
        made.metrics["best_epoch"] = 12
    assert "Still getting better" not in told(tmp_path / "early", runs, capsys)[1]


@pytest.mark.parametrize(
    ("tests", "doubted"), [((0.3, 0.4, 0.6), True), ((0.7, 0.71, 0.72), False)]
)
def test_a_pick_that_is_no_better_than_a_constant_is_doubted(tmp_path, tests, doubted, capsys):
    runs = [run("sum", seed, 0.4, 1.0, test=test) for seed, test in enumerate(tests)]
    assert ("a constant answer is about as good" in told(tmp_path, runs, capsys)[1]) == doubted


def test_times_of_two_machines_do_not_share_a_column(tmp_path, capsys):
    runs = [run("max", 0, 0.9, 1.0), run("sum", 0, 0.8, 1.0, hardware={"cpu": "Another"})]
    words, page = told(tmp_path, runs, capsys)
    assert "seconds per epoch" not in words
    assert "seconds per epoch, A Processor" in " ".join(re_spaced(page))


def re_spaced(page):
    return page.replace("commit", "").split()


def test_scores_have_their_range_and_runs_without_results_are_listed(tmp_path, capsys):
    failed = run("sum", 0, 0.5, 1.0, status="failed", error="the loss is nan", metrics={})
    words, page = told(tmp_path, [*seeds("gru", (0.90, 0.91, 0.92), 9.0), failed], capsys)
    assert "0.900–0.920" in words
    assert f"the page is {tmp_path / 'comparison.html'}" in words
    for text in ("the loss is nan", "8,000", "peak MB", "2.0", "A Processor", "the same network"):
        assert text in page, text


def test_runs_of_two_comparisons_are_not_mixed(tmp_path):
    save(
        tmp_path, [run("max", 0, 0.9, 1.0), run("mean", 0, 0.5, 1.0, facts=FACTS | {"digest": "b"})]
    )
    with pytest.raises(ValueError, match="runs of 2 comparisons; expected one"):
        write_comparison(tmp_path)


def test_without_a_finished_run_the_page_says_so(tmp_path, capsys):
    stopped = run("sum", 0, 0.5, 1.0, status="stopped", error="SIGINT", metrics={})
    assert "nothing can be said yet" in told(tmp_path, [stopped], capsys)[0]


def test_facts_are_plain(tmp_path):
    path = save(tmp_path, [run("max", 0, 0.9, 1.0)]) / "max" / "seed-0" / "record.json"
    assert json.loads(path.read_text())["recipe"]["dataset"]["name"] == "mine"
