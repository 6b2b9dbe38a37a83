"""The summary says what the numbers say."""

from lab.report.synthetic import record, save

from treefold.lab.report.content import read_content
from treefold.lab.report.text import as_html, as_markdown


def said(content):
    texts = [text for p in content.summary for text in (p.text, *p.points)]
    return [as_markdown(text) for text in texts]


def test_it_says_what_was_compared_and_with_how_much_effort(content):
    assert said(content)[0] == (
        "second-minimum (preset standard; 60 epochs, 3 seeds): GRU, Binary-GRU-Assoc, Binary-GRU, "
        "PNA, Max and Sum were trained to find the second smallest of a multiset of 8-bit "
        "integers, from sets of at most 16; tested on sets of up to 200."
    )


def test_it_names_the_best_in_and_out_of_distribution(content):
    assert said(content)[1:4] == [
        "Sizes 1–16 (as in training): Binary-GRU-Assoc is best with [0.998](#records-3), in the "
        "same range over seeds as Binary-GRU ([0.996](#records-4)), GRU ([0.995](#records-2)); "
        "the best fixed aggregator is PNA ([0.930](#records-5)).",
        "Size 32 (larger than in training): GRU is best with [0.990](#records-2); the best fixed "
        "aggregator is PNA ([0.700](#records-5)); the best constant answer would have 0.047.",
        "Size 200 (larger than in training): GRU is best with [0.880](#records-2); the best fixed "
        "aggregator is PNA ([0.120](#records-5)); the best constant answer would have 0.279.",
    ]


def test_it_says_how_near_the_paper_we_are(content):
    assert said(content)[4] == (
        "Beside the paper: 2 of 18 numbers are as good or better; furthest from it is PNA at "
        "size 32, [0.700](#records-5) against 0.794 (−0.094)."
    )


def test_it_answers_whether_associativity_rose_and_then_fell(content):
    opening = "Mean relative violation of the associativity law in training: "
    (courses,) = [words for words in said(content) if words.startswith(opening)]
    assert (
        "; Binary-GRU rose from [0.12](#records-4) to [0.5](#records-4) at epoch 20 and fell to "
        "[0.035](#records-4)."
    ) in courses
    assert (
        "Mean relative violation of the swap law in training: GRU fell from [0.29](#records-2) to "
        "[0.041](#records-2)."
    ) in said(content)
    assert (
        "The commutativity law holds up to rounding for Binary-GRU-Assoc and Binary-GRU."
    ) in said(content)


def test_a_law_that_was_better_obeyed_at_first_and_then_worse_is_told_so(tmp_path):
    violations = [0.2, 0.1, 0.15, 0.3, 0.29]
    rows = [{"epoch": e, "law:associativity": v} for e, v in enumerate(violations, 1)]
    save(tmp_path / "binary-gru", record("binary-gru", 1), rows)
    assert (
        "Mean relative violation of the associativity law in training: Binary-GRU fell from "
        "[0.2](#records-1) to [0.1](#records-1) at epoch 2, rose to [0.3](#records-1) at epoch 4 "
        "and ended at [0.29](#records-1)."
    ) in said(read_content(tmp_path))


def test_it_tells_the_sweep_and_the_speed(content):
    assert (
        "Size 200 (larger than in training): λ = 1 is best with [0.750](#records-8); the lowest "
        "is λ = 10⁻⁷ ([0.470](#records-15)); the best constant answer would have 0.279."
    ) in said(content)
    assert ("GRU: [6.10 and 42.10](#records-16); the paper's GPU: 46.6 and 397.2.") in said(content)


def test_it_ends_with_what_is_missing(content):
    assert said(content)[-1] == (
        "One seed only: 8 of 14 rows; small differences mean little there. Not finished, and in "
        "no mean: 1 run, listed below. Could not be read: 1 file, listed below."
    )


def test_one_seed_makes_no_claim_about_ranges(tmp_path):
    for row in ("gru", "binary-gru"):
        save(tmp_path / row, record(row, 1))
    assert not any("range" in sentence for sentence in said(read_content(tmp_path)))


def test_the_exact_monoid_learns_nothing_and_equals_are_not_ranked(tmp_path):
    save(tmp_path / "oracle", record("oracle", metrics={"accuracy@32": 1.0}))
    for row in ("gru", "sum"):
        save(tmp_path / row, record(row, metrics={"accuracy@32": 0.25}, reported={}))
    assert said(read_content(tmp_path)) == [
        "second-minimum (preset standard; 60 epochs, 1 seed): GRU and Sum were trained to find the "
        "second smallest of a multiset of 8-bit integers, from sets of at most 16.",
        "Size 32 (larger than in training): all have [0.250](#records-2).",
        "One seed only: 3 of 3 rows; small differences mean little there.",
    ]


def test_every_link_leads_to_records_that_are_there(content):
    anchors = {f"#{group.anchor}" for group in content.groups}
    html = "".join(as_html(text) for p in content.summary for text in (p.text, *p.points))
    links = {link.split('"')[0] for link in html.split('href="')[1:]}
    assert links <= anchors
    assert len(links) > 10
