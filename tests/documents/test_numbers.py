"""A number that was measured is in a record, on a page of benchmarks, or printed by its page."""

import importlib
import json

import pytest
import torch
from documents.numbers import MEASURED, missing, same, stray_claims, units_in, units_of_text
from documents.pages import BUILT, PAGES, ROOT, name_of, run_page

from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.loading import best_model, experiment_of
from treefold.lab.experiments.set_runner import Balanced
from treefold.lab.report.names import in_order
from treefold.lab.runs import Record, load_groups

QUOTING = [page for page in PAGES if MEASURED.search(page.read_text())]


@pytest.fixture(scope="module")
def publishing():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        return importlib.import_module("publish_results")


@pytest.fixture(scope="module")
def loaded():
    groups, damaged = load_groups(ROOT / "results")
    return in_order(groups), damaged


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_quotes_a_number_without_saying_where_from(page):
    assert stray_claims(page.read_text()) == [], "see CONTRIBUTING.md, Numbers"


@pytest.mark.parametrize("page", QUOTING, ids=name_of)
def test_every_measured_number_is_in_its_source(page, tmp_path):
    blocks = [(sources.split(", "), block) for sources, block in MEASURED.findall(page.read_text())]
    own = any("this page" in sources for sources, _ in blocks)
    printed = units_of_text(run_page(page, tmp_path)) if own else []
    for sources, block in blocks:
        found = [printed if name == "this page" else units_in(ROOT / name) for name in sources]
        units = [unit for source in found for unit in source]
        assert missing(block, units) == [], f"not in {sources}; see CONTRIBUTING.md, Numbers"


def test_the_results_page_is_that_of_the_records(publishing, loaded):
    assert publishing.markdown(*loaded) == BUILT.read_text(), "run make results-page"


def test_every_made_table_is_that_of_the_records(publishing, loaded):
    for page in publishing.PAGES:
        assert publishing.MADE.search(page.read_text()), page
        assert publishing.filled(page, loaded[0]) == page.read_text(), "run make results-page"


def test_no_other_page_has_a_table_that_is_called_made(publishing):
    # What stands in such a block counts as read from records, so somebody must write it from them.
    assert {page for page in PAGES if "<!-- made:" in page.read_text()} == set(publishing.PAGES)


@pytest.fixture(scope="module")
def row_of(loaded):
    """The group of a recipe, such as `("multi-task/gin", "quick")`."""
    rows = {(f"{g.experiment}/{g.row}", g.variant): g for g in loaded[0]}
    return lambda name, variant: rows[name, variant]


def ratio(group, split):
    return group.finished[0].record.metrics["log10_ratio"][f"extrapolation-{split}"]


def test_at_the_paper_s_recipe_the_law_loss_pays_on_large_uniform_sets_and_not_on_balanced(row_of):
    assoc = row_of("second-minimum/binary-gru-assoc", "paper, training.epochs=100")
    plain = row_of("second-minimum/binary-gru", "paper, training.epochs=85")
    ours, theirs = assoc.by_size("accuracy"), plain.by_size("accuracy")
    assert all(ours[size].mean > theirs[size].mean for size in ours if size > 48)
    ours, theirs = (g.by_size("balanced_accuracy") for g in (assoc, plain))
    assert sum(ours[size].mean > theirs[size].mean for size in ours) < len(ours) / 2


def test_the_violation_of_binary_gru_rises_and_falls_at_the_paper_s_recipe(row_of):
    (run,) = row_of("second-minimum/binary-gru", "paper, training.epochs=85").finished
    curve = [row["law:associativity"] for row in run.log]
    peak = curve.index(max(curve))
    assert 0 < peak < 10
    assert max(curve) > 1.15 * max(curve[0], curve[-1])


def test_preset_standard_is_ahead_of_our_runs_of_the_paper_s_recipe_in_a_tenth_of_their_steps(
    publishing, row_of
):
    def steps(group):
        return int(importlib.import_module("made_tables").steps(group).replace(",", ""))

    for row, epochs in (("gru", 120), ("binary-gru", 85), ("binary-gru-assoc", 100)):
        ours = row_of(f"second-minimum/{row}", "standard")
        theirs = row_of(f"second-minimum/{row}", f"paper, training.epochs={epochs}")
        assert steps(ours) < steps(theirs) / 10
        for metric in ("accuracy@1-16", "accuracy@32", "accuracy@200"):
            assert ours.metric(metric).mean > theirs.metric(metric).mean


def test_sum_and_gin_explode_on_large_graphs_and_pna_does_not(loaded, row_of):
    for row in ("mpnn-sum", "gin"):
        assert ratio(row_of(f"multi-task/{row}", "quick"), "45-49") > 5
    rows = [g for g in loaded[0] if g.experiment == "multi-task" and g.variant == "quick"]
    best = min(rows, key=lambda group: ratio(group, "95-99"))
    assert best.row == "pna-one-tower"
    assert ratio(row_of("multi-task/pna-16", "quick"), "95-99") < 0


def test_twice_the_epochs_are_worse_on_the_largest_graphs(row_of):
    for row in ("gru", "binary-gru-assoc", "binary-gru", "pna-16"):
        once, twice = (
            row_of(f"multi-task/{row}", v) for v in ("quick", "quick, training.epochs=80")
        )
        assert twice.metric("log10_mse@average").mean < once.metric("log10_mse@average").mean
        assert ratio(twice, "95-99") > ratio(once, "95-99")


def test_half_of_what_single_fixed_rows_gained_is_the_laplacian(row_of):
    def gained(metric):
        groups = [row_of(f"multi-task/{row}", "quick") for row in SINGLE]
        return sum(g.reported(metric).mean - g.metric(metric).mean for g in groups)

    share = gained("log10_mse@laplacian") / 6 / gained("log10_mse@average")
    assert share == pytest.approx(0.5, abs=0.05)


SINGLE = ("mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
WEIGHTS = sorted(path.parent for path in (ROOT / "results").rglob("checkpoints"))


@pytest.mark.parametrize("folder", WEIGHTS, ids=name_of)
def test_published_weights_have_the_scores_of_their_record(folder):
    record = Record.read(folder)
    experiment = experiment_of(record)
    runner = runner_of(experiment, record.seed)
    model = best_model(folder, runner)
    for case, score in ((200, "accuracy@200"), (Balanced(1000), "accuracy@balanced-1000")):
        found = runner.score(model, case, torch.device("cpu"))
        assert found == pytest.approx(record.metrics[score], abs=0.003)


def test_weights_are_published():
    assert [path.relative_to(ROOT / "results").parts[1] for path in WEIGHTS] == [
        "gated-selection-general"
    ]


def test_a_table_of_runs_that_are_not_there_is_refused(publishing, loaded):
    with pytest.raises(ValueError, match="no such finished runs"):
        publishing.made("second-minimum, preset paper", loaded[0], str)


@pytest.mark.parametrize(
    ("quoted", "number", "expected"),
    [
        ("0.692", 0.6923828, True),
        ("0.692", 0.6927, False),
        ("1,500", 1506, True),
        ("1,500", 1560, False),
        ("184", 184.2, True),
        ("30", 31, False),
    ],
)
def test_a_quoted_number_is_its_source_rounded(quoted, number, expected):
    assert same(quoted, number) == expected


def test_a_wrong_number_is_found(tmp_path):
    record = {"name": "a", "preset": "b", "metrics": {"accuracy@32": 0.5}, "reported": {},
              "recipe": {}, "epochs": 7, "seconds": 1.0}  # fmt: skip
    for seed, accuracy in enumerate((0.5, 0.7)):
        record["metrics"]["accuracy@32"] = accuracy
        (tmp_path / str(seed)).mkdir()
        (tmp_path / str(seed) / "record.json").write_text(json.dumps(record))
    units = units_in(tmp_path)
    assert missing("It has 0.60 after 7 epochs, over 2 seeds.", units) == []
    assert missing("It has 0.61 after 7 epochs.", units) == ["0.61"]
    assert missing("| it | 0.50 | 0.70 |", units) == ["0.70"]  # one row, two records
    with pytest.raises(ValueError, match="no records"):
        units_in(tmp_path / "nothing")


def test_the_numbers_of_a_row_are_those_of_the_line_with_its_words():
    units = units_of_text("| our fold | 512 sets | 1.07 |\n| the plan of 512 sets | 0.60 |")
    assert missing("| a fold of ours, 512 sets | 1.1 |", units) == []
    assert missing("| a fold of ours, 512 sets | 0.6 |", units) == ["0.6"]


def test_a_share_is_said_as_its_source_says_it():
    units = units_of_text("It holds for 9 of 15 pairs.")
    assert missing("It holds for 9 of 15.", units) == []
    assert missing("It holds for 15 of 15.", units) == ["15 of 15"]


def test_a_stray_number_is_found():
    text = "It is 2.4 times faster, takes 30 ms and 5 %.\n\n```python\nx = 2.5\n```\n`0.1` $0.2$"
    assert stray_claims(text) == ["2.4", "30", "5"]
    more = "It has -2.98, .94, 5e-7, 3 ×, 30 µs, and wins 9 of 15; sizes are 1-16, words 8-bit."
    assert stray_claims(more) == ["2.98", ".94", "5e-7", "3", "30", "9 of 15"]
    assert stray_claims("Needs Python 3.11, 128 channels and 1,000 epochs.") == []
