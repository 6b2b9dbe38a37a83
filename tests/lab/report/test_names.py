"""One table says what an aggregator is called and how it looks."""

import re

import pytest
from lab.report.synthetic import record

from treefold.lab.experiments import FAMILIES, SOURCES
from treefold.lab.report.names import (
    STYLES,
    anchor_of,
    slug_of,
    source_in_words,
    style_of,
    title_of,
)
from treefold.lab.runs import Group, Run


def test_every_colour_reads_on_white_and_on_black():
    for style in STYLES.values():
        assert re.fullmatch("#[0-9a-f]{6}", style.colour), style
        red, green, blue = (int(style.colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
        assert 0.1 < 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.75, style


def test_names_are_told_apart():
    assert len({style.label for style in STYLES.values()}) == len(STYLES)


def group(row, aggregator="other", weight=None):
    recipe = {"aggregator": {"name": aggregator, "options": {"associativity": weight}}}
    return Group([Run(None, record(row, experiment="second-minimum-lambda", recipe=recipe))])


def test_an_unknown_row_keeps_its_colour_and_has_the_kind_of_its_aggregator():
    assert style_of(group("mine")) == style_of(group("mine"))
    assert style_of(group("mine")).kind == "other"
    assert style_of(group("mine", "gated-selection")).kind == "LCM"


def test_a_variant_has_the_label_of_its_base_and_a_point_of_a_sweep_its_weight():
    assert style_of(group("gated-selection-means")).label == "Gated selection (means)"
    assert style_of(group("binary-gru-assoc-1e-02")).label == "Binary-GRU-Assoc (1e-02)"
    assert style_of(group("parity")).label == "Parity"
    assert style_of(group("row", "binary-gru-assoc", 0.001)).label == "λ\u00a0=\u00a00.001"


@pytest.mark.parametrize("name", [n for f in FAMILIES.values() for n in f.rows])
def test_rows_of_an_experiment_look_different(name):
    family = next(family for family in FAMILIES.values() if name in family.rows)
    rows = [*family.rows[name], *(family.extra_rows if name in family.with_extra else ())]
    colours = {style_of(group(row)).colour for row in rows}
    assert len(colours) == len(rows), rows


def test_a_scale_goes_from_dark_to_light():
    colours = [style_of(group("row", weight=weight)).colour for weight in (1.0, 1e-7)]
    assert colours == ["#482878", "#a5c82a"]


def test_sources_are_told_in_words():
    assert source_in_words("tab:pna_table") == "the paper's Table 1"
    assert source_in_words("fig:something_new") == "the paper"
    assert source_in_words("OGB leaderboard, PNA") == "OGB leaderboard, PNA"
    assert source_in_words("") == "source not recorded"
    assert not [words for words in SOURCES.values() if re.search(r"\w:\w", words)]


def test_what_nobody_knows_is_called_by_its_name():
    assert title_of("second-minimum") == "Second minimum"
    assert title_of("mine") == "mine"
    assert slug_of("Accuracy", "a/b, c=1") == "accuracy-a-b-c-1"


def test_the_reading_order_is_that_of_the_tables(groups):
    main = [group for group in groups if group.experiment == "second-minimum"]
    first = [group.row for group in main if group.preset == "standard"]
    assert first == ["gru", "binary-gru-assoc", "binary-gru", "pna", "max", "sum"]
    anchors = [anchor_of(group) for group in groups]
    assert len(set(anchors)) == len(anchors)
