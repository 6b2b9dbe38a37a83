import pytest

from treefold.lab.report.seed_stats import fold
from treefold.lab.report.text import (
    Link,
    Small,
    as_html,
    as_markdown,
    counted,
    escape_markdown,
    joined,
    listed,
    mean_and_deviation,
    power_of_ten,
    range_of,
    signed,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0123, "+0.012"), (-0.25, "−0.250"), (0.0004, "0.000"), (-0.0004, "0.000")],
)
def test_a_difference_has_a_sign_unless_it_rounds_to_nothing(value, words):
    assert signed(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1"), (0.001, "10⁻³"), (1e-7, "10⁻⁷"), (100.0, "10²"), (0.03, "0.03"), (0.0, "0")],
)
def test_powers_of_ten_are_written_as_such(value, words):
    assert power_of_ten(value) == words


def test_several_seeds_show_deviation_and_range_and_one_seed_neither():
    assert mean_and_deviation(fold([0.99, 0.994])) == "0.992 ± 0.003"
    assert range_of(fold([0.99, 0.994])) == (Small("0.990 to 0.994"),)
    assert mean_and_deviation(fold([0.99])) == "0.990"
    assert range_of(fold([0.99])) == ()


def test_links_and_small_print_in_both_languages():
    text = ("best: ", Link("0.99", "records-1", strong=True), Small("a & b"))
    assert as_html(text) == (
        'best: <a href="#records-1"><strong>0.99</strong></a><small>a &amp; b</small>'
    )
    assert as_markdown(text) == "best: [**0.99**](#records-1) (a &amp; b)"
    assert as_markdown(("1", Small("± 2", brackets=False))) == "1 ± 2"


def test_markdown_takes_words_literally_and_on_one_line():
    assert escape_markdown("a|b\n# <i>*x*</i> [l](u) `c`") == (
        r"a\|b \# &lt;i&gt;\*x\*&lt;/i&gt; \[l\](u) \`c\`"
    )


def test_lists_counts_and_sentences():
    assert [listed(list("abc"[:n])) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert [counted(n, "seed") for n in (1, 3)] == ["1 seed", "3 seeds"]
    assert joined([("a.",), (Link("b", "x"), ".")]) == ("a.", " ", Link("b", "x"), ".")
