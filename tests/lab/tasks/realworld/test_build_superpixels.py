"""Images become the graphs of the benchmark; what cannot be read is listed with its file."""

import csv
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("skimage")

from PIL import Image
from torch_geometric import datasets

from treefold.lab.tasks import CIFAR10, MNIST, load_dataset
from treefold.lab.tasks.realworld.build_superpixels import (
    Segmentation,
    build_superpixels,
    nearest,
    segments,
    superpixel_graph,
)
from treefold.lab.tasks.realworld.building import built_task


def digit(number, size=28):
    """A bright ring on black, a bit elsewhere each time."""
    rows, columns = np.indices((size, size)) - (size / 2 + number % 3)
    distance = np.hypot(rows, columns * (1 + number % 2))
    return np.clip(1 - np.abs(distance - size / 4) / 3, 0, 1).astype(np.float32)


@pytest.mark.parametrize("task", [MNIST(), CIFAR10()], ids=lambda task: task.name)
def test_edges_and_weights_follow_from_centres_as_in_the_official_files(task, few):
    graphs = datasets_of(few, task)
    for graph in graphs:
        edges, weights = nearest(graph["pos"].numpy())
        assert (edges == graph["edge_index"].numpy()).mean() > 0.99  # ties and rounding to float32
        np.testing.assert_allclose(weights, graph["edge_attr"].numpy(), atol=1e-5)


def datasets_of(few, task):
    lists = torch.load(few / task.folder / task.files()[0], weights_only=True)
    return [graph for graphs in lists for graph in graphs]


def test_a_grey_image_has_at_most_75_superpixels_with_eight_edges_each():
    for number in range(4):
        graph = superpixel_graph(digit(number), Segmentation.grey(), number)
        nodes = len(graph.x)
        assert 39 <= nodes <= 75  # as MNIST's
        assert graph.edge_index.shape == (2, 8 * nodes)
        assert (np.bincount(graph.edge_index[0]) == 8).all()
        assert (graph.edge_index[0] != graph.edge_index[1]).all()
        assert graph.pos.min() >= 0
        assert graph.pos.max() < 1
        assert graph.x.shape == (nodes, 1)


def test_a_coloured_image_has_at_most_150_superpixels():
    noise = np.random.default_rng(0).random((32, 32, 3)).astype(np.float32)
    graph = superpixel_graph(noise, Segmentation.colour(), 0)
    assert 85 <= len(graph.x) <= 150  # as CIFAR10's
    assert graph.x.shape[1] == 3


def test_nodes_are_means_over_their_pixels_in_a_random_order_of_their_own():
    image, cut = digit(1), Segmentation.grey()
    labels = segments(image, cut)
    expected = set()
    for label in range(labels.max() + 1):
        rows, columns = (labels == label).nonzero()
        place = (rows.mean() / 28, columns.mean() / 28)
        expected.add((*np.round(place, 4), round(float(image[labels == label].mean()), 4)))
    one, same, other = (superpixel_graph(image, cut, number) for number in (5, 5, 6))
    for graph in (one, other):
        rows = np.round(np.concatenate([graph.pos, graph.x], 1).astype(float), 4)
        assert len(rows) == len(expected)
        found = np.array(sorted(map(tuple, rows)))
        np.testing.assert_allclose(found, np.array(sorted(expected)), atol=2e-4)
    assert (one.pos == same.pos).all()
    assert not (one.pos == other.pos).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(0, 1000))
def test_everyone_points_to_the_most_similar_and_never_to_itself(count, seed):
    pos = np.random.default_rng(seed).random((count, 2))
    edges, weights = nearest(pos)
    degree = min(8, count - 1)
    assert edges.shape == (2, count * degree)
    assert (edges[0] != edges[1]).all()
    assert ((weights > 0) & (weights <= 1)).all()
    table = {(i, j): w for (i, j), w in zip(edges.T.tolist(), weights.tolist(), strict=True)}
    for (i, j), weight in table.items():
        assert table.get((j, i), weight) == pytest.approx(weight)  # similar both ways


def test_fewer_superpixels_can_be_asked_for():
    assert segments(digit(0), Segmentation.grey(20)).max() < 20
    assert Segmentation.grey() == Segmentation(75, 95, 0.25)
    assert Segmentation.colour() == Segmentation(150, 200, 10.0)
    for wrong in (lambda: Segmentation.grey(1), lambda: Segmentation.grey(compactness=0.0)):
        with pytest.raises(ValueError, match="expected"):
            wrong()


def saved(folder, count=6, colour=False):
    """Two classes of PNG and JPEG files."""
    for number in range(count):
        place = folder / ("ring" if number % 2 else "disc")
        place.mkdir(parents=True, exist_ok=True)
        pixels = (digit(number) * 255).astype(np.uint8)
        if colour and number == 0:
            pixels = np.stack([pixels, 255 - pixels, pixels], 2)
        Image.fromarray(pixels).save(place / f"{number}.{'png' if number < 4 else 'jpg'}")
    return folder


def test_a_folder_of_images_is_read_back_by_our_task_and_by_pyg(tmp_path):
    seen = []
    built = build_superpixels(
        saved(tmp_path / "mine", 10),
        tmp_path / "out",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(number, 10) for number in range(1, 11)]
    assert (built.name, built.sizes) == ("mnist", {"train": 8, "val": 1, "test": 1})
    about = json.loads((tmp_path / "out" / "MNIST" / "built.json").read_text())
    assert about["classes"] == ["disc", "ring"]
    labels = []
    for split in ("train", "val", "test"):
        store = MNIST().split(split, tmp_path / "out")
        theirs = datasets.GNNBenchmarkDataset(str(tmp_path / "out"), "MNIST", split=split)
        assert store.y.tolist() == [int(graph.y) for graph in theirs]
        labels += store.y.tolist()
        first = store.take(torch.tensor([0]))
        assert first.x.equal(torch.cat([theirs[0].x, theirs[0].pos], 1))
        assert first.edge_index.shape == theirs[0].edge_index.shape
    assert sorted(labels) == [0] * 5 + [1] * 5


def test_what_is_built_can_be_compared_on(tmp_path):
    build_superpixels(saved(tmp_path / "mine", 12), tmp_path / "out")
    found = load_dataset("mnist", tmp_path / "out")
    assert (found.problem.level, found.problem.kind) == ("graph", "classification")
    assert len(found.train) == 9


def test_one_image_in_colour_makes_all_of_them_so(tmp_path):
    built = build_superpixels(saved(tmp_path / "mine", colour=True), tmp_path / "out")
    assert built.name == "cifar10"
    store = CIFAR10().split("train", tmp_path / "out")
    assert store.x.shape[1] == 5


def test_files_that_are_no_images_are_left_out_and_counted(tmp_path):
    folder = saved(tmp_path / "mine", 8)
    whole = (folder / "disc" / "0.png").read_bytes()
    (folder / "disc" / "0.png").write_bytes(whole[: len(whole) // 2])
    (folder / "ring" / "bad.jpg").write_text("I am no image")
    Image.fromarray(np.full((9, 9), 40_000, np.uint16)).save(folder / "ring" / "deep.png")
    built = build_superpixels(folder, tmp_path / "out")
    assert sum(built.sizes.values()) == 7
    places = ["disc/0.png", "ring/bad.jpg", "ring/deep.png"]
    assert [entry.place for entry in built.left_out] == places
    assert "cannot be read" in built.left_out[0].problem
    assert "no image that can be read" in built.left_out[1].problem
    assert "more than 8 bits" in built.left_out[2].problem
    text = (tmp_path / "out" / "MNIST" / "left_out.csv").read_text()
    listed = list(csv.DictReader(text.splitlines()))
    assert [entry["place"] for entry in listed] == places


def test_given_splits_are_kept(tmp_path):
    for split, count in (("train", 4), ("val", 2), ("test", 2)):
        saved(tmp_path / "mine" / split, count)
    built = build_superpixels(tmp_path / "mine", tmp_path / "out")
    assert built.sizes == {"train": 4, "val": 2, "test": 2}
    assert MNIST().split("train", tmp_path / "out").y.tolist() == [0, 0, 1, 1]


IMAGES = np.stack([digit(number) for number in range(20)])
LABELS = np.arange(20) % 4 + 5


def test_arrays_are_read_and_dealt_to_splits(tmp_path):
    np.savez(tmp_path / "a.npz", x=(IMAGES * 255).astype(np.uint8), y=LABELS)
    built = build_superpixels(tmp_path / "a.npz", tmp_path, at_most=10)
    assert built.sizes == {"train": 16, "val": 2, "test": 2}
    about = json.loads((tmp_path / "MNIST" / "built.json").read_text())
    assert about["classes"] == ["5", "6", "7", "8"]
    found = torch.cat([MNIST().split(split, tmp_path).y for split in built.sizes])
    assert sorted(found.tolist()) == sorted((LABELS - 5).tolist())


def test_more_than_ten_classes_are_counted(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.tile(IMAGES, (3, 1, 1)), y=np.arange(60) % 12)
    build_superpixels(tmp_path / "a.npz", tmp_path / "out", at_most=5)
    task = built_task("mnist", tmp_path / "out")
    assert task == MNIST(classes=12)
    assert task.num_outputs == 12
    assert int(task.split("train", tmp_path / "out").y.max()) == 11
    assert load_dataset("mnist", tmp_path / "out").problem.num_outputs == 12
    with pytest.raises(ValueError, match="expected 0 to 9"):
        MNIST().split("train", tmp_path / "out")


def arrays(folder, **content):
    np.savez(folder / "mine.npz", **content)
    return folder / "mine.npz"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "is no folder and no .npz file"),
        (lambda folder: folder, "has 0 sub-folders; expected one for each class"),
        (lambda folder: arrays(folder, z=IMAGES), "expected the arrays x and y"),
        (lambda folder: arrays(folder, x=IMAGES, y=LABELS[:3]), "20 images and labels of type"),
        (lambda folder: arrays(folder, x=IMAGES, y=LABELS / 2), "labels of type float64"),
        (lambda folder: arrays(folder, x=IMAGES, y=LABELS * 0), r"are all \[0\]"),
        (
            lambda folder: arrays(folder, x=IMAGES * 9, y=LABELS),
            "none of 20 images.*beyond 0 and 1",
        ),
        (lambda folder: arrays(folder, x=LABELS, y=LABELS), r"none of 20 images.*has shape \[\]"),
        (
            lambda folder: arrays(folder, x=np.array([{}] * 20), y=LABELS),
            "mine.npz cannot be read as arrays",
        ),
    ],
)
def test_what_gives_no_data_set_is_refused_and_nothing_is_written(make, message, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(ValueError, match=message) as caught:
        build_superpixels(make(folder), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
