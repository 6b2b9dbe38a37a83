"""Processes of torchrun, the machine in a record, and errors of the command line."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest
import torch

from treefold.lab.cli import commands
from treefold.lab.cli.app import app
from treefold.lab.cli.commands import evaluate_run, print_laws, resume_run, train_rows, world_of
from treefold.lab.cli.options import Machine
from treefold.lab.runs import MetricsLog, Record
from treefold.lab.runs.signals import Stopped
from treefold.lab.runs.world import DEVICES, World, _layout, require_device

TINY = ["training.epochs=1", "training.batch_size=32", "model.channels=8", "task.num_train=65",
        "task.num_validation=16", "task.num_evaluation=4", "evaluation.sizes=1,2",
        "evaluation.balanced_sizes="]  # fmt: skip
IN_ORDER = ["aggregator.options.shuffle=false", "aggregator.options.bracketing=balanced"]


def train(out, row="binary-gru", machine=None, changes=()):
    name = f"second-minimum/{row}"
    train_rows(name, "smoke", 0, out, [*TINY, *changes], machine or Machine(), False)
    return next(out.rglob("record.json")).parent


@pytest.fixture
def worlds(monkeypatch):
    """The worlds that were asked for; each is made here, of one process."""
    asked = []

    def made(device, precision, processes):
        asked.append((device, precision, processes))
        return World("cpu", precision)

    monkeypatch.setattr(commands, "World", made)
    return asked


def test_torchrun_s_processes_train_one_model_and_a_last_batch_of_one_set_is_shared(tmp_path):
    """65 sets in batches of 32: of the third batch, the second process gets nothing."""
    sets = [part for item in [*TINY, *IN_ORDER] for part in ("--set", item)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc-per-node", "2",
         "--master-port", "0", "--standalone", "-m", "treefold.lab.cli", "train",
         "second-minimum/binary-gru", "--preset", "smoke", "--out", str(tmp_path / "two"), *sets],
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("epoch 1/1") == 1
    (two,) = [path.parent for path in (tmp_path / "two").rglob("record.json")]
    assert Record.read(two).machine["processes"] == 2
    one = train(tmp_path / "one", changes=IN_ORDER)
    (alone,), (together,) = MetricsLog.read(one), MetricsLog.read(two)
    for column in ("train_loss", "validation_loss", "train_accuracy", "law:associativity"):
        assert alone[column] == pytest.approx(together[column], rel=1e-4)


def test_several_nodes_of_torchrun_are_one_world(monkeypatch):
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "x"),
        ("WORLD_SIZE", "6"),
        ("LOCAL_WORLD_SIZE", "2"),
    ):
        monkeypatch.setenv(name, value)
    assert _layout(None) == _layout(6) == (2, 3)
    with pytest.raises(ValueError, match="3 processes are asked for, but torchrun has started 6"):
        _layout(3)


def test_a_run_goes_on_as_it_was_begun_if_not_told_otherwise(tmp_path, worlds, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = torch.get_num_threads()
    folder = train(tmp_path, "sum", Machine(precision="bf16-mixed", threads=1))
    assert "+precision=bf16-mixed+" in folder.parent.name
    assert Record.read(folder).machine["threads"] == 1
    torch.set_num_threads(2)
    resume_run(folder, Machine())
    assert torch.get_num_threads() == 1
    assert worlds[-1] == ("cpu", "bf16-mixed", 1)
    resume_run(folder, Machine(device="cuda", threads=2))
    assert torch.get_num_threads() == 2
    assert worlds[-1] == ("cuda", "bf16-mixed", 1)
    torch.set_num_threads(threads)


def test_a_finished_run_goes_on_for_longer_if_it_is_told_to(tmp_path):
    folder = train(tmp_path, "sum", changes=["training.schedule=constant"])
    app(["resume", str(folder), "--epochs", "3", "--threads", "1"], result_action="return_value")
    record = Record.read(folder)
    assert (record.status, record.epochs) == ("finished", 3)
    assert [row["epoch"] for row in MetricsLog.read(folder)] == [1, 2, 3]


def test_train_goes_on_with_the_threads_of_the_run_that_is_there(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads, asked = torch.get_num_threads(), []
    folder = train(tmp_path, "sum", Machine(threads=1))
    dataclasses.replace(Record.read(folder), status="stopped").write(folder)
    monkeypatch.setattr(commands, "run", lambda *_, **__: asked.append(torch.get_num_threads()))
    monkeypatch.setattr(commands, "in_short", str)
    torch.set_num_threads(2)
    train(tmp_path, "sum", Machine())
    train(tmp_path, "sum", Machine(threads=2))
    torch.set_num_threads(threads)
    assert asked == [1, 2]


def test_a_record_from_before_goes_on_with_the_usual_machine(worlds):
    world_of(Machine(), {})
    assert worlds == [("cpu", "32-true", 1)]


def test_a_run_is_evaluated_on_the_device_that_is_asked_for(tmp_path, worlds, capsys):
    folder = train(tmp_path, "sum")
    evaluate_run(folder, "1,2", None, Machine(device="cuda"))
    assert worlds[-1][:2] == ("cuda", "32-true")
    scores = capsys.readouterr().out.split()
    assert scores[-4::2] == ["1", "2"]


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_a_run_of_any_precision_is_evaluated_as_it_was_trained(tmp_path, precision, capsys):
    folder = train(tmp_path, machine=Machine(precision=precision))
    recorded = Record.read(folder).metrics["accuracy"]["1"]
    capsys.readouterr()
    evaluate_run(folder, "1", None, Machine())
    assert capsys.readouterr().out.split()[:2] == ["1", f"{recorded:.4f}"]
    evaluate_run(folder, "1", None, Machine(precision="32-true"))
    checkpoint = next((folder / "checkpoints").glob("best-*.json"))
    for path in (folder, folder / "checkpoints", checkpoint):
        capsys.readouterr()
        print_laws(path, 8)
        assert "associativity" in capsys.readouterr().out


def test_a_stop_between_two_rows_is_heard(tmp_path, monkeypatch):
    shown = commands.in_short

    def interrupt(record):
        os.kill(os.getpid(), signal.SIGTERM)
        return shown(record)

    monkeypatch.setattr(commands, "in_short", interrupt)
    with pytest.raises(Stopped, match="SIGTERM"):
        train_rows("second-minimum", "smoke", 0, tmp_path, TINY, Machine(), False)
    records = [Record.read(path.parent) for path in tmp_path.rglob("record.json")]
    assert sorted(record.status for record in records) == ["finished", "stopped"]


def failing(capsys, code, *arguments):
    with pytest.raises(SystemExit) as left:
        app([str(argument) for argument in arguments])
    assert left.value.code == code
    return capsys.readouterr().err


def test_a_record_without_a_recipe_is_explained(tmp_path, capsys):
    Record(name="second-minimum/sum", preset="smoke", seed=0, recipe={}).write(tmp_path)
    said = failing(capsys, 2, "resume", tmp_path)
    assert "the recipe in the record of second-minimum/sum lacks 'task'; expected" in said


def test_a_record_that_cannot_be_read_has_exit_code_4(tmp_path, capsys):
    (tmp_path / "record.json").write_text('{"name"')
    assert "record.json is not JSON" in failing(capsys, 4, "resume", tmp_path)


@pytest.mark.parametrize("fraction", ["0", "-3", "5", "nan"])
def test_a_fraction_of_an_epoch_is_between_0_and_1(tmp_path, capsys, fraction):
    said = failing(capsys, 2, "bench", f"--fraction={fraction}", "--out", tmp_path)
    assert f"--fraction is {fraction}; expected more than 0 and at most 1" in said


def test_a_folder_that_cannot_be_written_is_named_before_timing(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    said = failing(capsys, 4, "bench", "--out", tmp_path / "file" / "runs")
    assert "a file stands where a folder should be" in said


def test_what_is_timed_can_be_changed_and_its_record_says_so(tmp_path, capsys):
    change = "aggregator.options.law_nodes=8"
    with pytest.raises(SystemExit) as left:
        app(
            f"bench --preset smoke --rows binary-gru-assoc --sizes 2,4 --fraction 1 --threads 1 "
            f"--set {change} --set task.num_train=128 --out {tmp_path}"
        )
    assert left.value.code == 0
    record = Record.read(
        tmp_path / "set-speed" / "binary-gru-assoc" / f"smoke+{change}+task.num_train=128"
    )
    assert record.overrides == {"aggregator.options.law_nodes": 8, "task.num_train": 128}
    assert record.recipe["task"]["num_train"] == 128
    assert record.recipe["aggregator"]["options"]["law_nodes"] == 8
    published = record.reported["seconds_per_epoch@200"]
    assert (published["value"], published["spread"]) == (79.4, 0.5)
    assert record.machine["threads"] == 1
    by_size = record.metrics["seconds_per_epoch_by_size"]
    assert all(len(by_size[size]) == 3 and min(by_size[size]) > 0 for size in ("2", "4"))
    assert "binary-gru-assoc" in capsys.readouterr().out


def test_processes_are_timed_together_and_tell_it_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "bench", "--preset", "smoke",
         "--rows", "sum", "--sizes", "2", "--fraction", "1", "--set", "task.num_train=128",
         "--processes", "2", "--threads", "1", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("n = 2") == 1
    (folder,) = [path.parent for path in tmp_path.rglob("record.json")]
    assert folder.name == "smoke+processes=2+task.num_train=128"
    record = Record.read(folder)
    assert record.overrides == {"task.num_train": 128, "processes": 2}
    assert record.machine["processes"] == 2


def test_no_processes_at_all_are_refused():
    with pytest.raises(ValueError, match="--processes is 0; expected 1 or more"):
        world_of(dataclasses.replace(Machine(), processes=0))


def test_a_device_that_is_not_there_or_unknown_is_refused_in_plain_words(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for device, message in (
        ("gpu", "unknown device 'gpu'; did you mean cpu"),
        ("tpu", "unknown device 'tpu'"),
    ):
        with pytest.raises(ValueError, match=message):
            require_device(device)
    for device in ("cpu", "auto"):
        require_device(device)


def test_a_known_device_must_be_there(monkeypatch):
    monkeypatch.setitem(DEVICES, "cuda", lambda: False)
    with pytest.raises(ValueError, match="device is cuda, and torch finds none on this machine"):
        World("cuda")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "trian",
            'Unknown command "trian". Did you mean "train"? Available commands: list, train, '
            "sweep, resume, evaluate, laws, export, certify, ...",
        ),
        ("train x --presett quick", "Unknown option: --presett. Did you mean --preset?"),
        ("train x --seed abc", 'Invalid value for --seed: unable to convert "abc" into int.'),
    ],
)
def test_a_command_that_cannot_be_read_is_a_line_with_what_was_meant(capsys, command, expected):
    assert failing(capsys, 2, *command.split()) == f"treefold: {expected}\n"
