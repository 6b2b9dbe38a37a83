"""A damaged checkpoint is noticed, named, and passed over for the older one."""

import logging
import random
from pathlib import Path

import pytest
from checkpoints.stored import checkpoint, step_of
from lab.runs.disk import Killed, contents, failing_disk

from treefold.checkpoints import CheckpointStore, DamagedCheckpoint


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "treefold"]


@pytest.fixture
def damage(saved, tmp_path, caplog):
    """Writes other bytes into a file of the newest checkpoint, and sees what a load says."""

    def falls_back(extension, data):
        path = tmp_path / f"last-000002.{extension}"
        before = path.read_bytes()
        path.write_bytes(data)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "treefold"):
            step = step_of(CheckpointStore(tmp_path).load())
        path.write_bytes(before)
        (message,) = warnings_of(caplog)
        assert message.startswith(path.name)
        assert message.endswith("; using last-000001")
        assert step == 1
        return message

    return falls_back


@pytest.mark.parametrize("extension", ["json", "safetensors"])
def test_a_flip_of_any_bit_is_noticed_and_the_older_one_used(damage, tmp_path, extension):
    data = (tmp_path / f"last-000002.{extension}").read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << random.randrange(8)
        assert "changed: " in damage(extension, bytes(changed))


@pytest.mark.parametrize("extension", ["json", "safetensors"])
def test_other_changes_are_noticed_too(damage, tmp_path, extension):
    data = (tmp_path / f"last-000002.{extension}").read_bytes()
    for changed in (data + b"\n", b" " + data, bytes(len(data)), data[::-1], b"[]", b""):
        damage(extension, changed)


@pytest.mark.parametrize(
    ("extension", "words"), [("json", "is torn or changed"), ("safetensors", "bytes instead of")]
)
def test_a_file_cut_anywhere_is_noticed(damage, tmp_path, extension, words):
    data = (tmp_path / f"last-000002.{extension}").read_bytes()
    for length in range(0, len(data), 3):
        assert words in damage(extension, data[:length])


def test_files_of_different_saves_are_not_taken_for_one(damage, tmp_path):
    older = (tmp_path / "last-000001.safetensors").read_bytes()
    assert "its SHA-256 is not the one that was written" in damage("safetensors", older)


def test_a_missing_tensor_file_is_noticed(saved, tmp_path, caplog):
    (tmp_path / "last-000002.safetensors").unlink()
    assert step_of(saved.load()) == 1
    assert warnings_of(caplog) == ["last-000002.safetensors is missing; using last-000001"]


def test_a_file_that_cannot_be_read_is_noticed(saved, tmp_path, caplog):
    (tmp_path / "last-000002.safetensors").unlink()
    (tmp_path / "last-000002.safetensors").mkdir()
    assert step_of(saved.load()) == 1
    assert "last-000002.safetensors cannot be read: Is a directory" in warnings_of(caplog)[0]


def test_a_whole_store_is_loaded_without_a_warning(saved, caplog):
    saved.load()
    assert warnings_of(caplog) == []


def test_where_all_are_damaged_all_are_named(saved, tmp_path):
    (tmp_path / "last-000001.json").write_text("{")
    (tmp_path / "last-000002.safetensors").write_bytes(b"")
    with pytest.raises(DamagedCheckpoint) as raised:
        saved.load()
    assert str(raised.value).startswith(f"no checkpoint in {tmp_path} is whole: ")
    assert "last-000002.safetensors has 0 bytes instead of" in str(raised.value)
    assert "last-000001.json is torn" in str(raised.value)
    assert saved.exists()


def test_another_format_is_named(store, tmp_path, monkeypatch):
    monkeypatch.setattr("treefold.checkpoints.VERSION", 2)
    store.save(checkpoint(1))
    monkeypatch.undo()
    with pytest.raises(DamagedCheckpoint, match="format version 2; this treefold reads 1"):
        store.load()


def test_a_damaged_one_does_not_take_the_place_of_a_whole_one(saved, tmp_path):
    (tmp_path / "last-000002.safetensors").write_bytes(b"")
    saved.load()
    saved.save(checkpoint(3))
    (tmp_path / "last-000003.json").write_bytes(b"")
    assert step_of(saved.load()) == 1


def test_an_interrupted_first_save_is_told_and_counts_as_none(store, tmp_path, caplog):
    with failing_disk(9, Killed(), for_good=True), pytest.raises(Killed):
        store.save(checkpoint(1))
    assert "last-000001.safetensors" in contents(tmp_path)
    assert store.load() is None
    assert not store.exists()
    (message,) = warnings_of(caplog)
    assert message.startswith("last-000001.safetensors has no .json next to it")


def test_a_load_during_saves_elsewhere_takes_the_newer_one(saved, monkeypatch):
    """The listing is old by the time the files are read."""
    real, reads = Path.read_bytes, []

    def overtaken(path):
        reads.append(path)
        if len(reads) == 1:
            other = CheckpointStore(saved.folder)
            for step in (3, 4, 5):
                other.save(checkpoint(step))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", overtaken)
    assert step_of(saved.load()) == 5
