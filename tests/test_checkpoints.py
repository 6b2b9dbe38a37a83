import ast
import errno
import json
import logging
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from records.disk import Killed, contents, failing_disk, os_error

import treefold
from treefold import checkpoints as checkpoint_module
from treefold.checkpoints import Checkpoint, CheckpointStore, DamagedCheckpoint
from treefold.records import StorageError, remove_leftovers
from treefold.training import state as state_module

SOURCE = Path(treefold.__file__).parents[1]


def checkpoint(step):
    """A checkpoint that is easy to recognise, and to see through if it is a mixture."""
    tensors = {"weight": torch.full((4, 5), step), "bias": torch.full((7,), float(step))}
    return Checkpoint(tensors, {"step": step, "loss": [step / 3]})


def step_of(found):
    values = {float(value) for tensor in found.tensors.values() for value in tensor.flatten()}
    assert {name: tuple(tensor.shape) for name, tensor in found.tensors.items()} == {
        "weight": (4, 5),
        "bias": (7,),
    }
    assert found.state["loss"] == [found.state["step"] / 3]
    assert values == {float(found.state["step"])}
    return found.state["step"]


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path)


def store_of_two(folder):
    """A store with the checkpoints 1 and 2."""
    folder.mkdir(exist_ok=True)
    store = CheckpointStore(folder)
    store.save(checkpoint(1))
    store.save(checkpoint(2))
    return store


@pytest.fixture
def saved(tmp_path):
    return store_of_two(tmp_path)


def same_bits(a, b):
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    flat = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))
    return torch.equal(*flat)


# What comes back.


def test_nothing_is_there_before_the_first_save(store, tmp_path):
    assert store.load() is None
    assert not store.exists()
    assert CheckpointStore(tmp_path / "nowhere").load() is None
    store.save(checkpoint(1))
    assert store.exists()


def test_a_save_is_two_files_of_which_the_json_is_strict_and_readable(store, tmp_path):
    store.save(Checkpoint({"w": torch.ones(2)}, {"best": math.inf, "betas": (0.9, 0.999)}))
    assert set(contents(tmp_path)) == {"last-000001.safetensors", "last-000001.json"}
    text = (tmp_path / "last-000001.json").read_text()
    written = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert written["content"]["state"] == {
        "best": {"$float": "inf"},
        "betas": {"$tuple": [0.9, 0.999]},
    }
    assert written["content"]["version"] == 1
    size = (tmp_path / "last-000001.safetensors").stat().st_size
    assert written["content"]["tensors"]["bytes"] == size


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    *(torch.uint16, torch.uint32, torch.uint64, torch.bool),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_and_shape_come_back_bit_for_bit(store, dtype):
    generator = torch.Generator().manual_seed(0)
    width = torch.empty(0, dtype=dtype).element_size()
    high = 2 if dtype == torch.bool else 256
    noise = torch.randint(high, (6, 4 * width), dtype=torch.uint8, generator=generator).view(dtype)
    tensors = {
        "matrix": noise,
        "scalar": noise[0, 0],
        "empty": noise[:0],
        "empty vector": noise[0, :0],
        "transposed": noise.t(),
        "strided": noise[::2, 1:3],
        "expanded": noise[:1].expand(3, -1),
        "tied": noise,
        "overlapping": noise[1:],
    }
    store.save(Checkpoint(tensors, {}))
    found = store.load().tensors
    assert found.keys() == tensors.keys()
    assert all(same_bits(found[name], tensors[name]) for name in tensors)
    assert found["matrix"].data_ptr() != found["tied"].data_ptr()


def test_special_values_and_lazy_views_are_stored_as_they_read(store):
    numbers = torch.complex(torch.tensor([1.0, math.nan]), torch.tensor([-0.0, math.inf]))
    tensors = {
        "conjugate": numbers.conj(),
        "negative": numbers.conj().imag[1:],
        "nan": torch.tensor([math.nan, -math.nan, math.inf, -0.0, 5e-324], dtype=torch.float64),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    store.save(Checkpoint(tensors, {}))
    found = store.load().tensors
    assert same_bits(found["conjugate"], numbers.conj().resolve_conj())
    assert same_bits(found["negative"], torch.tensor([-math.inf]))
    assert same_bits(found["nan"], tensors["nan"])
    assert same_bits(found["parameter"], torch.ones(2))
    assert not found["parameter"].requires_grad


def test_loaded_tensors_can_be_changed_without_changing_the_next_load(store):
    store.save(checkpoint(3))
    store.load().tensors["weight"].zero_()
    assert step_of(store.load()) == 3


def test_state_comes_back_exactly(store):
    state = {
        "best": -math.inf,
        "loss": [0.1, 5e-324, 1 / 3, math.nan],
        "milestones": {10: 1, "10": 2},
        "betas": (0.9, [0.999]),
        "none": None,
        "text": "λ \u2028 \udcff",
        "large": 2**70,
    }
    store.save(Checkpoint({}, state))
    found = store.load()
    assert found.tensors == {}
    assert math.isnan(found.state["loss"].pop())
    state["loss"].pop()
    assert found.state == state


def test_what_cannot_be_stored_is_refused_and_nothing_is_written(store, tmp_path):
    with pytest.raises(TypeError, match="state/scheduler/f is of type builtin_function"):
        store.save(Checkpoint({}, {"scheduler": {"f": len}}))
    with pytest.raises(TypeError, match=r"adjacency is a torch.sparse_coo tensor on cpu"):
        store.save(Checkpoint({"adjacency": torch.eye(2).to_sparse()}, {}))
    with pytest.raises(TypeError, match=r"w is a torch.strided tensor on meta"):
        store.save(Checkpoint({"w": torch.ones(2, device="meta")}, {}))
    assert contents(tmp_path) == {}


# Which ones are kept.


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_are_kept_and_numbers_increase(tmp_path, keep):
    for step in range(1, 6):
        CheckpointStore(tmp_path, keep=keep).save(checkpoint(step))
    stems = [f"last-{number:06d}" for number in range(6 - keep, 6)]
    files = {f"{stem}.{extension}" for stem in stems for extension in ("json", "safetensors")}
    assert set(contents(tmp_path)) == files
    assert step_of(CheckpointStore(tmp_path).load()) == 5


def test_numbers_grow_beyond_six_digits(store, tmp_path):
    store.save(checkpoint(1))
    for extension in ("json", "safetensors"):
        os.rename(tmp_path / f"last-000001.{extension}", tmp_path / f"last-999999.{extension}")
    store.save(checkpoint(2))
    assert (tmp_path / "last-1000000.json").exists()
    assert step_of(store.load()) == 2


def test_stores_of_different_names_share_a_folder(saved, tmp_path):
    best, odd = CheckpointStore(tmp_path, "best", keep=1), CheckpointStore(tmp_path, "last-odd")
    best.save(checkpoint(10))
    odd.save(checkpoint(11))
    for number in ("0000007", "12", "x"):
        (tmp_path / f"last-{number}.json").touch()
    saved.save(checkpoint(3))
    assert [step_of(store.load()) for store in (saved, best, odd)] == [3, 10, 11]


def test_a_name_or_a_number_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'a/b' cannot begin a file name"):
        CheckpointStore(tmp_path, "a/b")
    with pytest.raises(ValueError, match="keep is 0"):
        CheckpointStore(tmp_path, keep=0)


# Disks that are full, and processes that are killed.


CALLS_OF_A_FILE = ["open", "write", "fsync", "replace", "unlink", "open", "fsync"]
CALLS_OF_A_SAVE = [*CALLS_OF_A_FILE, *CALLS_OF_A_FILE, "unlink", "unlink"]


def test_the_tensors_are_on_the_disk_before_the_json_and_old_ones_go_last(saved, tmp_path):
    with failing_disk(0, None) as calls:
        saved.save(checkpoint(3))
    assert calls == CALLS_OF_A_SAVE


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS"])
def test_a_disk_that_fails_at_any_call_costs_no_earlier_checkpoint(tmp_path, error):
    for at, call in enumerate(CALLS_OF_A_SAVE, start=1):
        store = store_of_two(tmp_path / str(at))
        before = contents(store.folder)
        with failing_disk(at, os_error(error)):
            if call == "unlink":
                store.save(checkpoint(3))
            else:
                with pytest.raises(StorageError, match="last-000003") as raised:
                    store.save(checkpoint(3))
                assert raised.value.errno == getattr(errno, error)
                assert contents(store.folder) == before
        assert step_of(store.load()) == (3 if call == "unlink" else 2)
        store.save(checkpoint(4))
        assert step_of(store.load()) == 4


def test_a_kill_at_any_call_leaves_the_old_checkpoint_or_the_new_one(tmp_path):
    survivors = []
    for at in range(1, len(CALLS_OF_A_SAVE) + 1):
        store = store_of_two(tmp_path / str(at))
        with failing_disk(at, Killed(), for_good=True), pytest.raises(Killed):
            store.save(checkpoint(3))
        files = contents(store.folder)
        assert all(name.replace("json", "safetensors") in files for name in files if name[0] != ".")
        resumed = CheckpointStore(store.folder)
        survivors.append(step_of(resumed.load()))
        remove_leftovers(store.folder)
        resumed.save(checkpoint(4))
        assert step_of(resumed.load()) == 4
        assert len(contents(store.folder)) == 4  # nothing of the killed save is left
    assert survivors == [2] * 11 + [3] * 5  # renaming the .json, the 11th call, is what counts


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/last-000001.*folder is missing"):
        CheckpointStore(tmp_path / "nowhere").save(checkpoint(1))


KILLED_WHILE_SAVING = """
import os, random, resource, signal, sys, time
from pathlib import Path
import torch
from treefold.records import StorageError, remove_leftovers
from treefold import checkpoints as checkpoint_module
from treefold.training import state as state_module
from treefold.checkpoints import Checkpoint, CheckpointStore

folder, moments = Path(sys.argv[1]), random.Random(int(sys.argv[2]))
torch.set_num_threads(1)

def checkpoint(step, width=2000):
    tensors = {f"{n}": torch.full((width,), step, dtype=torch.float64) for n in range(4)}
    return Checkpoint(tensors, {"step": step, "again": [step] * 50})

def step_found():
    found = CheckpointStore(folder).load()
    step = found.state["step"]
    assert found.state["again"] == [step] * 50
    assert len(found.tensors) == 4
    assert all(bool((tensor == step).all()) for tensor in found.tensors.values())
    return step

CheckpointStore(folder).save(checkpoint(0))
steps = [0]
for _ in range(20):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        store = CheckpointStore(folder)
        while True:
            steps[-1] += 1
            store.save(checkpoint(steps[-1]))
            os.write(writing, b"saved")
    os.read(reading, 1)  # however slow the machine, there is progress
    time.sleep(moments.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    steps.append(step_found())
    remove_leftovers(folder)

resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    CheckpointStore(folder).save(checkpoint(-1, width=20_000))
except StorageError as error:
    print(error)
print(*steps, step_found())
"""


def test_twenty_kills_while_saving_and_a_file_too_large_lose_no_checkpoint(tmp_path):
    answer = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, str(tmp_path), str(random.randrange(2**32))],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert "; using last-" not in answer.stderr  # none was even damaged
    error, steps = answer.stdout.splitlines()
    assert "safetensors: it is larger than files may be here" in error
    steps = [int(step) for step in steps.split()]
    assert len(steps) == 22
    assert steps[:21] == sorted(set(steps))  # every round began where the last one ended
    assert steps[21] == steps[20]


# Files that are damaged.


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
    assert message.startswith("last-000001.safetensors has no .json beside it")


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


@pytest.mark.parametrize("module", [checkpoint_module, state_module], ids=lambda m: m.__name__)
def test_nothing_is_pickled(module):
    nodes = list(ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))))
    uses = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute | ast.Name)}
    assert not uses & {"torch.load", "torch.save", "torch.serialization", "pickle"}
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("pickle" in line for line in imports)
