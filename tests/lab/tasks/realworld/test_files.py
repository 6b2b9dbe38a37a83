"""Official files are data: what would run is refused, what is not whole is refused or redone."""

import gzip
import io
import logging
import os
import pickle

import pytest
import torch

from treefold.lab.tasks import GRAPH_TASKS, MNIST, ZINC, MolHIV, RefusedFile
from treefold.lab.tasks.realworld.plain_pickle import load_plain

PICKLE = "ZINC/raw/val.pickle"
TENSORS = "MNIST/raw/MNIST_v2.pt"


class Harmful:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_a_pickle_that_would_run_something_is_refused_and_nothing_runs(copy, tmp_path):
    molecules = [*pickle.loads((copy / PICKLE).read_bytes()), Harmful(tmp_path / "harm")]
    (copy / PICKLE).write_bytes(pickle.dumps(molecules))
    with pytest.raises(RefusedFile, match=r"val\.pickle is refused: it asks for posix\.mkdir"):
        ZINC().split("val", copy)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "name", ["builtins\neval", "builtins\ngetattr", "torch\nload", "os\nsystem"]
)
def test_a_name_is_refused_even_if_it_is_never_called(copy, name):
    (copy / PICKLE).write_bytes(f"c{name}\n.".encode())
    with pytest.raises(RefusedFile, match="which is no data"):
        ZINC().split("val", copy)


class FakeTensor:
    """Pickled as a tensor of nine numbers, whose bytes are these."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        storage = FakeStorage(self.data)
        return torch._utils._rebuild_tensor_v2, (storage, 0, (9,), (1,), False, {})


class FakeStorage:
    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return torch.storage._load_from_bytes, (self.data,)


def with_tensor(copy, tensor):
    parts = dict.fromkeys(("atom_type", "bond_type", "logP_SA_cycle_normalized"), tensor)
    (copy / PICKLE).write_bytes(pickle.dumps([parts] * 3))


def bytes_of(tensor):
    """The bytes that a pickle has for a tensor's numbers."""
    storage = tensor.__reduce_ex__(2)[1][0]
    return storage.__reduce__()[1][0]


def test_harm_inside_the_bytes_of_a_tensor_is_refused_and_nothing_runs(copy, tmp_path):
    with_tensor(copy, FakeTensor(pickle.dumps(Harmful(tmp_path / "harm"))))
    with pytest.raises(RefusedFile, match=r"asks for posix\.mkdir"):
        ZINC().split("val", copy)
    assert not (tmp_path / "harm").exists()


def test_a_tensor_cannot_reach_beyond_its_numbers(copy):
    with_tensor(copy, FakeTensor(bytes_of(torch.zeros(2))))
    with pytest.raises(RefusedFile, match="beyond its 2 numbers"):
        ZINC().split("val", copy)


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_tensor_with_missing_bytes_is_refused(copy, cut):
    with_tensor(copy, FakeTensor(bytes_of(torch.zeros(9))[:cut]))
    with pytest.raises(RefusedFile, match="a tensor"):
        ZINC().split("val", copy)


NUMBER_TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32,
                torch.float64)  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBER_TYPES)
def test_tensors_of_all_number_types_and_layouts_are_read_as_they_were(dtype):
    tensor = torch.arange(24).to(dtype).view(4, 6)
    for view in (tensor, tensor.t(), tensor[1:, 2::2], tensor[2, 3], tensor[:0]):
        read = load_plain(io.BytesIO(pickle.dumps(view)), "a pickle").array()
        assert torch.from_numpy(read.copy()).equal(view)


def test_tensors_with_something_that_would_run_are_refused(copy, tmp_path):
    torch.save([[], [], [Harmful(tmp_path / "harm")]], copy / TENSORS)
    with pytest.raises(RefusedFile, match=r"MNIST_v2\.pt is refused"):
        MNIST().split("val", copy)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("file", [PICKLE, TENSORS, "ogbg_molhiv/raw/edge.csv.gz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.98])
def test_half_an_official_file_is_refused_by_name(copy, file, share):
    content = (copy / file).read_bytes()
    (copy / file).write_bytes(content[: int(len(content) * share)])
    task = next(t for t in GRAPH_TASKS.values() if t.folder == file.partition("/")[0])()
    with pytest.raises(RefusedFile, match=r"(?s)val\.pickle|MNIST_v2\.pt|edge\.csv\.gz"):
        task.split("val", copy)


def test_tables_of_different_lengths_are_refused(copy):
    path = copy / "ogbg_molhiv" / "raw" / "node-feat.csv.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    with pytest.raises(RefusedFile, match="do not belong together"):
        MolHIV().split("val", copy)


def test_categories_beyond_the_vocabulary_are_refused(copy):
    path = copy / "ogbg_molhiv" / "raw" / "edge-feat.csv.gz"
    lines = gzip.decompress(path.read_bytes()).replace(b"0,0,", b"9,0,")
    path.write_bytes(gzip.compress(lines))
    with pytest.raises(
        RefusedFile, match=r"is not molhiv: edges have . to 9 in column 0; .* 0 to 4"
    ):
        MolHIV().split("train", copy)


def test_a_list_that_names_other_molecules_is_refused(copy):
    (copy / "ZINC" / "raw" / "val.index").write_text("0,99\n")
    with pytest.raises(RefusedFile, match=r"val\.index names molecule 99"):
        ZINC().split("val", copy)


@pytest.mark.parametrize("name", GRAPH_TASKS)
def test_files_are_converted_once(few, name, monkeypatch):
    task = GRAPH_TASKS[name]()
    before = task.split("train", few)
    monkeypatch.setattr(GRAPH_TASKS[name], "read", None)  # whoever reads again fails
    after = {split: task.split(split, few) for split in ("train", "val", "test")}
    assert before.arrays().keys() == after["train"].arrays().keys()
    for array, again in zip(
        before.arrays().values(), after["train"].arrays().values(), strict=True
    ):
        assert array.dtype == again.dtype
        assert (array == again).all()


def test_a_damaged_conversion_is_done_again(few, tmp_path, caplog):
    before = ZINC().split("val", few)
    (kept,) = (tmp_path / "cache").rglob("val-*.arrays")
    kept.write_bytes(kept.read_bytes()[:-20])
    with caplog.at_level(logging.WARNING, logger="treefold"):
        assert ZINC().split("val", few).y.equal(before.y)
    assert "building it again" in caplog.text


def test_another_file_in_its_place_is_converted_anew(copy):
    first = ZINC().split("val", copy)
    (copy / "ZINC" / "raw" / "val.index").write_text("1,0\n")
    assert ZINC().split("val", copy).y.tolist() == first.y[[2, 0]].tolist()
