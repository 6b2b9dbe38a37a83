"""A command that is given a checkpoint uses that one, and no other."""

import shutil

import pytest
import torch

from treefold.checkpoints import CheckpointStore, DamagedCheckpoint
from treefold.lab.cli.commands import evaluate_run, print_laws, resume_run, train_rows
from treefold.lab.cli.options import Machine
from treefold.lab.experiments import load_model
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.loading import experiment_of, model_at
from treefold.lab.runs import MetricsLog, Record

CHANGES = ["training.epochs=2", "task.num_train=64", "model.channels=8", "task.num_validation=16",
           "task.num_evaluation=64", "evaluation.sizes=1,2"]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    train_rows("second-minimum/binary-gru", "smoke", 0, out, CHANGES, Machine(threads=1), False)
    return next(out.rglob("record.json")).parent


@pytest.fixture
def run(trained, tmp_path):
    """A run whose last checkpoint is one of other weights than its best."""
    folder = shutil.copytree(trained, tmp_path / "run")
    store = CheckpointStore(folder / "checkpoints", "last", keep=3)
    checkpoint = store.load()
    for name, tensor in checkpoint.tensors.items():
        if name.startswith("model/"):
            checkpoint.tensors[name] = tensor + torch.linspace(-3, 3, tensor.numel()).view_as(
                tensor
            )
    store.save(checkpoint)
    return folder


def newest(run, name):
    return sorted((run / "checkpoints").glob(f"{name}-*.json"))[-1]


def printed(capsys, command, *arguments):
    command(*arguments)
    return capsys.readouterr().out


def test_laws_are_those_of_the_checkpoint_that_is_named(run, capsys):
    whole = printed(capsys, print_laws, run, 64)
    assert printed(capsys, print_laws, newest(run, "best"), 64) == whole
    assert printed(capsys, print_laws, run / "checkpoints", 64) == whole
    last = printed(capsys, print_laws, newest(run, "last"), 64)
    assert "associativity" in last
    assert last != whole


@pytest.mark.parametrize("row", ["gru", "lstm"])
def test_swaps_are_asked_of_the_states_and_rows_of_a_recurrent_run(tmp_path, capsys, row):
    name, changes = f"second-minimum/{row}", [*CHANGES, "training.epochs=1"]
    train_rows(name, "smoke", 0, tmp_path, changes, Machine(threads=1), False)
    folder = next(tmp_path.rglob("record.json")).parent
    capsys.readouterr()
    logged = MetricsLog.read(folder)[-1]["law:swap"]
    lines = printed(capsys, print_laws, folder, 512).splitlines()
    median, *_, largest = (float(word) for word in lines[-1].split()[1:])
    assert lines[-2].split()[0] == "swap"
    assert median / 3 < logged < largest


def test_scores_are_those_of_the_checkpoint_that_is_named(run, capsys):
    whole, best, last = (
        printed(capsys, evaluate_run, path, "2", None, Machine(threads=1))
        for path in (run, newest(run, "best"), newest(run, "last"))
    )
    assert best == whole
    assert last != whole


def test_either_file_names_a_checkpoint(run):
    runner, path = runner_of(experiment_of(Record.read(run)), 0), newest(run, "last")
    models = [model_at(path.with_suffix(suffix), runner) for suffix in (".json", ".safetensors")]
    first, second = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(first, second)


def test_a_damaged_checkpoint_that_is_named_is_not_replaced_by_another(run):
    path = newest(run, "best").with_suffix(".safetensors")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedCheckpoint, match=rf"{path.name} is changed"):
        print_laws(path, 64)


def test_a_path_is_all_it_takes_to_load_a_network(run):
    experiment = experiment_of(Record.read(run))
    for path in (run, newest(run, "last")):
        found = load_model(str(path)).state_dict()
        for name, value in model_at(path, runner_of(experiment, 0)).state_dict().items():
            assert torch.equal(found[name], value)


def test_what_is_no_checkpoint_is_refused(run):
    (run / "checkpoints" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"notes\.txt is no checkpoint; expected a file such as"):
        print_laws(run / "checkpoints" / "notes.txt", 64)


def test_a_run_goes_on_from_its_last_checkpoint_only(run):
    with pytest.raises(ValueError, match=r"one checkpoint, but a run is resumed from its last one"):
        resume_run(newest(run, "last"), Machine())
