from itertools import combinations

from lab.report.synthetic import OURS, record, save, sweep_record

from treefold.lab.report.groups import group_runs
from treefold.lab.report.runs import load_runs
from treefold.lab.report.styles import KNOWN, rgb, scale, style_groups


def luminance(colour):
    linear = [((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def as_seen_by_a_deuteranope(colour):
    r, g, b = (c / 255 for c in rgb(colour))
    return (0.625 * r + 0.375 * g, 0.7 * r + 0.3 * g, 0.3 * g + 0.7 * b)


def test_the_papers_aggregators_are_told_apart_without_seeing_green():
    seen = {row: as_seen_by_a_deuteranope(KNOWN[row].colour) for row in OURS}
    for first, second in combinations(OURS, 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen[first], seen[second], strict=True)) ** 0.5
        assert distance > 0.1 or KNOWN[first].dash != KNOWN[second].dash, (first, second)


def test_every_colour_is_visible_on_white_and_on_black():
    colours = [style.colour for style in KNOWN.values()] + scale(8)
    assert all(0.08 < luminance(colour) < 0.6 for colour in colours)


def test_an_aggregator_has_one_style_whatever_the_experiment(tmp_path):
    for place, experiment in enumerate(("second-minimum", "parity", "set-speed")):
        save(tmp_path / f"{place}", record("gru", experiment=experiment))
        save(tmp_path / f"new-{place}", record("my-own", experiment=experiment))
    styles = style_groups(group_runs(load_runs(tmp_path).runs))
    assert styles["gru"] == KNOWN["gru"]
    assert styles["my-own"].label == "my-own"
    assert styles["my-own"].colour not in {style.colour for style in KNOWN.values()}


def test_a_sweep_runs_along_one_scale(tmp_path):
    for power in range(8):
        save(tmp_path / str(power), sweep_record(power))
    styles = style_groups(group_runs(load_runs(tmp_path).runs))
    swept = [styles[f"binary-gru-assoc-1e-{power:02d}"] for power in range(8)]
    assert [style.label for style in swept[:3]] == ["λ = 1", "λ = 10⁻¹", "λ = 10⁻²"]
    lights = [luminance(style.colour) for style in swept]
    assert lights == sorted(lights)
    assert len(set(lights)) == 8
