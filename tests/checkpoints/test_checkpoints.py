"""A checkpoint comes back bit for bit, the newest are kept, and nothing is pickled."""

import ast
import json
import math
import os
from pathlib import Path

import pytest
import torch
from checkpoints.stored import checkpoint, step_of
from lab.runs.disk import contents

from treefold import checkpoints as checkpoint_module
from treefold.checkpoints import Checkpoint, CheckpointStore
from treefold.lab.runs import state as state_module

# What comes back


def same_bits(a, b):
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    flat = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))
    return torch.equal(*flat)


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


# Which ones are kept


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


@pytest.mark.parametrize("module", [checkpoint_module, state_module], ids=lambda m: m.__name__)
def test_nothing_is_pickled(module):
    nodes = list(ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))))
    uses = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute | ast.Name)}
    assert not uses & {"torch.load", "torch.save", "torch.serialization", "pickle"}
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("pickle" in line for line in imports)
