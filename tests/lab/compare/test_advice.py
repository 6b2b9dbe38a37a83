"""Which aggregator to pick follows from the numbers, and the page says why."""

import re

import pytest
from lab.compare.made_up import FACTS, run, save, seeds

from treefold.lab.compare import pick, write_page
from treefold.lab.compare.advice import advice
from treefold.lab.compare.results import read_results
from treefold.lab.report.groups import group_runs
from treefold.lab.report.page_parts import POLICY
from treefold.lab.report.runs import load_runs
from treefold.lab.report.styles import style_groups
from treefold.lab.report.text import as_markdown


def results(folder, runs):
    groups = group_runs(load_runs(save(folder, runs)).runs)
    return read_results(groups, style_groups(groups))


def told(found):
    paragraphs = advice(found)
    return "\n".join(as_markdown(t) for p in paragraphs for t in (p.text, *p.points))


def test_what_is_clearly_best_is_picked_though_it_is_slow(tmp_path):
    found = results(
        tmp_path,
        [
            *seeds("gru", (0.90, 0.91, 0.92), 9.0, laws={"swap": 0.3}),
            *seeds("max", (0.80, 0.81, 0.82), 0.5),
            *seeds("sum", (0.70, 0.71, 0.72), 0.4),
        ],
    )
    assert pick(found).label == "GRU"
    words = told(found)
    assert (
        "Pick [**GRU**](#records-1): its validation accuracy of 0.910 ± 0.010 is the best." in words
    )
    assert "best learned one is clearly better" in words
    assert "Max is best on validation (0.810 ± 0.010), clearly ahead of Sum" in words
    assert "GRU (swap off by 0.3)" in words


def test_of_those_that_chance_may_have_ordered_the_fastest_is_picked(tmp_path):
    found = results(
        tmp_path,
        [
            *seeds("gru", (0.85, 0.91, 0.88), 9.0),
            *seeds("pna", (0.84, 0.90, 0.87), 1.0),
            *seeds("max", (0.60, 0.61, 0.62), 0.1),
        ],
    )
    assert pick(found).label == "PNA"
    assert "not clearly worse than the best, 0.880 ± 0.030 of GRU" in told(found)
    assert "GRU takes 9.0 times as long" in told(found)
    assert "no clear difference between the best learned and the best fixed" in told(found).lower()


def test_two_seeds_must_agree_far_better_than_five_to_be_sure(tmp_path):
    scores = (0.80, 0.84, 0.80, 0.84, 0.82)
    for count, sure in ((2, False), (5, True)):
        lower = [score - 0.06 for score in scores]
        runs = [*seeds("max", scores[:count], 1.0), *seeds("sum", lower[:count], 1.0)]
        found = results(tmp_path / str(count), runs)
        best, worse = found.ranked
        assert best.label == "Max"
        assert found.clearly_better(best.val, worse.val) == sure
        assert not found.clearly_better(worse.val, best.val)


def test_test_scores_do_not_choose(tmp_path):
    found = results(
        tmp_path,
        [
            *seeds("max", (0.90, 0.91, 0.92), 1.0, test=0.5),
            *seeds("sum", (0.70, 0.71, 0.72), 1.0, test=0.99),
        ],
    )
    assert pick(found).label == "Max"
    assert "On the test it has accuracy of 0.500 ± 0.000" in told(found)


def test_lower_errors_are_better(tmp_path):
    facts = FACTS | {"metric": "mae", "kind": "regression"}
    found = results(
        tmp_path,
        [
            *seeds("max", (0.30, 0.31, 0.32), 1.0, facts=facts),
            *seeds("binary-gru", (0.10, 0.11, 0.12), 1.0, facts=facts, train=0.01),
        ],
    )
    assert [row.label for row in found.ranked] == ["Binary-GRU", "Max"]
    assert pick(found).label == "Binary-GRU"
    assert "Binary-GRU loses most from train to test (0.100 mae)" in told(found)
    assert "add binary-gru-assoc" in told(found)


def test_a_difference_of_an_answer_or_two_is_none(tmp_path):
    facts = FACTS | {"answers": {"train": 100, "val": 20, "test": 20}}
    found = results(
        tmp_path,
        [
            *seeds("gru", (0.95, 0.95, 0.95), 5.0, facts=facts),
            *seeds("sum", (0.90, 0.90, 0.90), 1.0, facts=facts),
        ],
    )
    assert pick(found).label == "Sum"
    assert "val has only 20 answers" in told(found)


def test_one_seed_is_a_caution_and_equal_scores_are_still_equal(tmp_path):
    found = results(
        tmp_path, [run("gru", 0, 0.9, 5.0), run("mean", 0, 0.9, 0.1), run("max", 0, 0.89, 0.01)]
    )
    assert pick(found).label == "mean"
    assert "One seed only: chance may have chosen" in told(found)


def test_recurrent_and_tree_are_weighed_with_the_depth_of_the_largest_neighbourhood(tmp_path):
    found = results(
        tmp_path,
        [
            *seeds("gru", (0.90, 0.91, 0.92), 8.0, laws={"swap": 0.001}),
            *seeds("binary-gru", (0.90, 0.91, 0.92), 2.0, laws={"associativity": 0.2}, test=0.8),
            *seeds("binary-gru-assoc", (0.90, 0.91, 0.92), 4.0, test=0.9),
        ],
    )
    words = told(found)
    assert "no clear difference in validation. An epoch of GRU takes" in words
    assert "1,000 steps one after the other for a recurrent one, 10 for a tree" in words
    assert "Binary-GRU (associativity off by 0.2)" in words
    assert "swap" not in words
    assert "associativity helps clearly on the test" in words


@pytest.mark.parametrize(
    ("tests", "words"),
    [((0.3, 0.4, 0.6), "hardly better"), ((0.4,) * 3, "no better"), ((0.2,) * 3, "no better")],
)
def test_a_pick_that_is_no_better_than_a_constant_is_doubted(tmp_path, tests, words):
    found = results(
        tmp_path, [run("sum", seed, 0.4, 1.0, test=test) for seed, test in enumerate(tests)]
    )
    assert f"{words} than a constant answer (0.400)" in told(found)


@pytest.fixture
def folder(tmp_path):
    return save(
        tmp_path,
        [
            *seeds("gru", (0.90, 0.91, 0.92), 9.0, laws={"swap": 0.3}),
            *seeds("max", (0.80, 0.81, 0.82), 0.5),
            run("sum", 0, 0.5, 1.0, status="failed", error="the loss is nan", metrics={}),
        ],
    )


def test_the_page_needs_nothing_else_and_has_everything(folder):
    files = write_page(folder)
    page, table = files.page.read_text(), files.table.read_text()
    assert files.page == folder / "comparison.html"
    assert files.table == folder / "comparison.md"
    outside_of_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<link|src=|url\(|https?://", outside_of_scripts)
    assert f'content="{POLICY}"' in page  # the browser loads nothing, from anywhere
    for words in (
        "Pick ",
        "0.910 ± 0.010",
        "0.3",
        "2.0 MB",
        "8,000",
        "the loss is nan",
        "A Processor",
    ):
        assert words in page, words
        assert words in table or words == "Pick ", words
    assert {path.name for path in files.figures} == {
        "test-against-time-mine.png",
        "test-against-time-mine.svg",
    }
    assert [path.suffix for path in files.figures if path.stat().st_size] == [".png", ".svg"]


def test_the_same_records_give_the_same_page(folder):
    first = write_page(folder).page.read_bytes()
    assert write_page(folder).page.read_bytes() == first


def test_runs_of_two_comparisons_are_not_mixed(folder):
    other = run("mean", 0, 0.5, 1.0, facts=FACTS | {"digest": "another"})
    save(folder, [other])
    with pytest.raises(ValueError, match="runs of 2 comparisons; expected one"):
        write_page(folder)


def test_without_a_finished_run_the_page_says_so(tmp_path):
    save(tmp_path, [run("sum", 0, 0.5, 1.0, status="stopped", error="SIGINT", metrics={})])
    assert "there is nothing to report yet" in write_page(tmp_path).page.read_text()
