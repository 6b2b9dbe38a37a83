"""The multi-task benchmark: its golden values, its variants, and what it refuses."""

from collections import Counter

import pytest
import torch

from treefold.lab.tasks import (
    FAMILIES,
    VARIANTS,
    MultiTask,
    constant_baseline,
    target_means,
)
from treefold.lab.tasks.multitask.targets import assemble, normalised

TASK = MultiTask()
CORRECTED = MultiTask(variant="corrected")
SMALL = MultiTask(num_train=20, num_validation=5, num_test=5, num_extrapolation=5)

BASELINES = {
    "val": (-1.998, -1.636, -1.733, -0.621, -1.442, -1.559, -1.498, -1.228),
    "test": (-1.967, -1.621, -1.684, -0.619, -1.427, -1.507, -1.471, -1.217),
    "extrapolation-20-24": (-1.795, -1.419, -1.505, -0.615, -1.218, -1.292, -1.307, -1.135),
    "extrapolation-25-29": (-1.622, -1.186, -1.357, -0.619, -0.977, -1.076, -1.139, -1.028),
    "extrapolation-30-34": (-1.474, -1.035, -1.205, -0.613, -0.819, -0.881, -1.005, -0.924),
    "extrapolation-35-39": (-1.338, -0.882, -1.077, -0.612, -0.659, -0.699, -0.878, -0.812),
    "extrapolation-40-44": (-1.224, -0.736, -0.972, -0.611, -0.511, -0.556, -0.768, -0.706),
    "extrapolation-45-49": (-1.125, -0.643, -0.920, -0.613, -0.411, -0.493, -0.701, -0.639),
    "extrapolation-60-64": (-0.918, -0.401, -0.700, -0.615, -0.158, -0.216, -0.501, -0.423),
    "extrapolation-75-79": (-0.790, -0.226, -0.509, -0.614, 0.023, 0.010, -0.351, -0.248),
    "extrapolation-95-99": (-0.617, -0.032, -0.310, -0.620, 0.235, 0.239, -0.184, -0.050),
}
"""log10 of the error of each target, the mean of the six, and log10 of the mean error."""

FRESH_TEST = (-1.889, -1.513, -1.596, -0.617, -1.315, -1.411, -1.390, -1.179)
"""The same for sizes 15 to 24 with the published labels."""


def row(scores):
    numbers = (*scores.log10.values(), scores.mean_log10, scores.log10_mean)
    return tuple(round(number, 3) for number in numbers)


def test_training_maxima_and_means_are_the_golden_ones(cache):
    golden = [23, 23, 13.56578528, 1, 23, 22.67579566]
    assert TASK.maxima(cache).tolist() == pytest.approx(golden, abs=5e-9)
    means = target_means(TASK.split("train", cache, torch.float64))
    golden = [0.1174929, 0.2269171, 0, 0.4128906, 0.2832796, 0.2606031]
    assert means.tolist() == pytest.approx(golden, abs=5e-8)


def test_training_degree_averages_are_the_golden_ones(cache):
    averages = TASK.degree_averages(cache)
    assert averages.linear == pytest.approx(5.113690, abs=5e-7)
    assert averages.logarithmic == pytest.approx(1.515281792, abs=5e-10)
    assert averages.exponential == pytest.approx(0.685031, abs=5e-7)


def test_training_families_and_seeds_are_the_golden_ones(cache):
    train, val, test = (TASK.drawn(name, cache) for name in ("train", "val", "test"))
    assert [len(split.sizes) for split in (train, val, test)] == [5120, 640, 1280]
    assert Counter(FAMILIES[family].name for family in train.families) == {
        "erdos-renyi": 1037,
        "barabasi-albert": 1011,
        "tree": 743,
        "lobster": 545,
        "caterpillar": 499,
        "ladder": 283,
        "grid": 273,
        "star": 270,
        "line": 232,
        "caveman": 227,
    }
    assert [int(split.rejected) for split in (train, val, test)] == [792, 86, 181]
    assert [int(split.counter) for split in (val, test)] == [7872, 9333]


def test_the_first_training_graph_is_the_golden_one(cache):
    assert TASK.raw_split("train", cache).graph_y[0].tolist() == pytest.approx(
        [0, 4, 2.856970], abs=5e-7
    )
    first = TASK.split("train", cache).take(torch.tensor([0]))
    golden = [
        (0.086957, 0.173913, 0.0039386),
        (0.086957, 0.086957, 0.012333),
        (0.130435, 0.130435, 0.0050524),
        (0.173913, 0.173913, -0.0028644),
        (0, 0.086957, 0.027865),
    ]
    torch.testing.assert_close(first.node_y[:5], torch.tensor(golden), atol=6e-7, rtol=0)
    assert first.edge_index.shape == (2, 26)


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_constant_baseline_is_the_golden_one(cache, split):
    assert row(TASK.baseline(split, cache)) == BASELINES[split]


def test_the_constant_baseline_is_the_golden_one_on_all_extrapolation_sets(cache):
    # One test, as each set's seeds follow those of the one before.
    names = [name for name in TASK.splits if name.startswith("extrapolation")]
    assert len(names) == 9
    assert {name: row(TASK.baseline(name, cache)) for name in names} == {
        name: BASELINES[name] for name in names
    }


def test_the_corrected_variant_tests_all_sizes_and_means_connected_by_connected(cache):
    test = CORRECTED.raw_split("test", cache)
    assert test.sizes.unique(return_counts=True)[1].tolist() == [128] * 10
    labels = torch.from_numpy(CORRECTED.drawn("test", cache).graph_labels)
    assert torch.equal(test.graph_y[:, 0], labels[:, 0])
    share = CORRECTED.raw_split("train", cache).graph_y[:, 0].mean()
    assert share == pytest.approx(0.9, abs=0.02)  # 0.41 in the published variant
    baseline = CORRECTED.baseline("test", cache)
    assert baseline.errors[3] == pytest.approx((labels[:, 0] - share).square().mean())
    others = [0, 1, 2, 4, 5]
    assert [row(baseline)[i] for i in others] == [FRESH_TEST[i] for i in others]


def test_with_the_published_labels_its_test_has_the_golden_baseline(cache):
    drawn = CORRECTED.drawn("test", cache)
    test = normalised(assemble(drawn, "published"), TASK.maxima(cache), torch.float64)
    assert row(constant_baseline(TASK.split("train", cache, torch.float64), test)) == FRESH_TEST


def test_variants_share_their_graphs_and_files(tmp_path):
    corrected = MultiTask("corrected", num_train=20, num_validation=5, num_test=10)
    published = MultiTask("published", num_train=20, num_validation=5, num_test=10)
    mine, theirs = (task.split("val", tmp_path) for task in (corrected, published))
    assert torch.equal(mine.edge_index, theirs.edge_index)
    assert torch.equal(mine.node_y, theirs.node_y)
    assert not torch.equal(mine.graph_y[:, 0], theirs.graph_y[:, 0])
    assert len(list(tmp_path.glob("*/*.arrays"))) == 2


def test_a_small_task_has_all_splits_with_their_sizes(cache):
    for name in SMALL.splits:
        split = SMALL.split(name, cache)
        assert tuple(split.sizes.unique().tolist()) == SMALL.sizes(name)
        assert len(split) == (20 if name == "train" else 5)


def test_another_seed_or_another_number_of_training_graphs_is_other_data(cache):
    first = SMALL.split("val", cache)
    for change in ({"seed": 99}, {"num_train": 30}):
        other = MultiTask(**{**vars(SMALL), **change}).split("val", cache)
        assert not torch.equal(first.x[:15], other.x[:15])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "publish"}, "unknown variant 'publish'; did you mean published"),
        ({"num_train": 0}, "num_train is 0; expected a multiple of 10"),
        ({"num_test": 7}, "num_test is 7; expected a multiple of 5"),
        ({"variant": "corrected", "num_test": 5}, "num_test is 5; expected a multiple of 10"),
        ({"num_extrapolation": -5}, "num_extrapolation is -5"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_impossible_tasks_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MultiTask(**options)


def test_an_unknown_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"unknown split 'extrapolation-20-25'; did you mean"):
        TASK.split("extrapolation-20-25", tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_variant_says_what_it_is():
    assert all("connected means" in variant.about for variant in VARIANTS.values())
