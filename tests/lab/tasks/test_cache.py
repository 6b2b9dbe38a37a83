"""The cache: built once, checked each time, built again when it is not whole."""

import hashlib
import io
import logging
import os
from pathlib import Path

import numpy as np
import pytest

from treefold.atomic import StorageError
from treefold.lab.tasks import MultiTask
from treefold.lab.tasks import cache as cache_module
from treefold.lab.tasks.cache import cache_folder, cached_arrays

ARRAYS = {"numbers": np.arange(5), "reals": np.array([[0.5, np.pi]]), "one": np.array(3)}
TINY = MultiTask(num_train=20, num_validation=5, num_test=5, num_extrapolation=5)


class Build:
    """Counts how often it is called."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return ARRAYS


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "deep" / "train.arrays"
    cached_arrays(path, Build())
    return path


def assert_same(found):
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def assert_built_again(path, caplog):
    build = Build()
    with caplog.at_level(logging.WARNING, logger="treefold"):
        assert_same(cached_arrays(path, build))
    assert build.calls == 1
    assert "building it again" in caplog.text
    assert_same(cached_arrays(path, build))
    assert build.calls == 1  # what was built again is whole


def test_arrays_are_built_once_and_then_read(path, caplog):
    build = Build()
    assert_same(cached_arrays(path, build))
    assert build.calls == 0
    assert caplog.text == ""
    assert [file.name for file in path.parent.iterdir()] == ["train.arrays"]


def test_a_flipped_bit_anywhere_is_noticed(path):
    whole = path.read_bytes()
    for place in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        build = Build()
        assert_same(cached_arrays(path, build))
        assert build.calls == 1, f"byte {place} was changed"


@pytest.mark.parametrize("length", [0, 1, 30, 83, 84, 200, -1])
def test_a_half_written_file_is_built_again(path, caplog, length):
    path.write_bytes(path.read_bytes()[:length])
    assert_built_again(path, caplog)


def test_another_version_is_built_again(path, caplog, monkeypatch):
    monkeypatch.setattr(cache_module, "VERSION", 2)
    assert_built_again(path, caplog)
    assert "not with version 2" in caplog.text


def sealed(content):
    return f"treefold arrays 1 {hashlib.sha256(content).hexdigest()}\n".encode() + content


def test_what_is_no_archive_is_built_again_even_with_a_right_checksum(path, caplog):
    path.write_bytes(sealed(b"PK not a zip"))
    assert_built_again(path, caplog)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_nothing_is_unpickled(path, caplog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packed = io.BytesIO()
    np.savez(packed, numbers=np.array([Harmful()], dtype=object))
    path.write_bytes(sealed(packed.getvalue()))
    assert_built_again(path, caplog)
    assert not Path("harm").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    build = Build()
    with pytest.raises(StorageError, match="choose another folder"):
        cached_arrays(tmp_path / "file" / "train.arrays", build)
    assert build.calls == 0


def test_the_folder_is_the_argument_or_the_variable_or_the_user_s(tmp_path, monkeypatch):
    monkeypatch.delenv("TREEFOLD_CACHE", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "treefold"
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "variable"))
    assert cache_folder() == tmp_path / "variable"
    assert cache_folder(tmp_path / "argument") == tmp_path / "argument"
    assert cache_folder("~/data") == Path.home() / "data"


def test_a_task_reads_the_folder_of_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path))
    TINY.split("val")
    assert sorted(f.name.split("-")[0] for f in tmp_path.glob("*/*.arrays")) == ["train", "val"]


def test_a_damaged_split_comes_back_the_same(tmp_path):
    before = TINY.split("val", tmp_path)
    for file in tmp_path.glob("*/*.arrays"):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 4
        file.write_bytes(data)
    after = TINY.split("val", tmp_path)
    assert before.x.equal(after.x)
    assert before.edge_index.equal(after.edge_index)
    assert before.node_y.equal(after.node_y)
    assert before.graph_y.equal(after.graph_y)
