"""Sweeps: what their runs are told, how they stop, and what they make of damage."""

import shlex
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from treefold.atomic import StorageError
from treefold.lab.cli.commands import variant_name
from treefold.lab.cli.display import Silent
from treefold.lab.cli.options import Machine
from treefold.lab.cli.sweeping import Children, Job, _run, manifest, sweep_rows
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.running import new_record
from treefold.lab.runs import Record


def job(out, **options):
    return Job("second-minimum/sum", "smoke", 0, str(out), (), **options)


def test_device_and_precision_reach_every_run(tmp_path):
    where = Machine("cuda", "bf16-mixed")
    (made,) = manifest("second-minimum/sum", "smoke", 1, tmp_path, [], where)
    told = made.command()
    assert told[told.index("--device") + 1] == "cuda"
    assert told[told.index("--precision") + 1] == "bf16-mixed"
    assert made.folder.parent.name == "smoke+precision=bf16-mixed"


def test_a_precision_that_cannot_work_is_refused_before_any_run(tmp_path):
    with pytest.raises(ValueError, match="16-true"):
        list(manifest("second-minimum/sum", "smoke", 1, tmp_path, [], Machine("cpu", "16-true")))


def begun():
    """The record of a run that has just begun."""
    (experiment,) = find_experiment("second-minimum/sum", "smoke")
    return new_record(runner_of(experiment, seed=0), "smoke", {}, {})


@pytest.mark.parametrize("content", ["", '{"name": "second', '{"version": 99}'])
def test_a_run_whose_record_cannot_be_read_is_not_finished(tmp_path, content):
    folder = job(tmp_path).folder
    folder.mkdir(parents=True)
    begun().write(folder)
    (folder / "record.json").write_text(content)
    assert not job(tmp_path).is_finished()


def test_the_manifest_of_another_variant_has_another_name(tmp_path, monkeypatch):
    monkeypatch.setattr("treefold.lab.cli.sweeping.run_here", lambda jobs, workers: [])
    for changes in ([], ["training.epochs=1"]):
        sweep_rows("second-minimum/sum", "smoke", 1, tmp_path, changes, None, None, Machine())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "second-minimum-sum-smoke+training.epochs=1.manifest.jsonl",
        "second-minimum-sum-smoke.manifest.jsonl",
    ]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*file/runs"):
        sweep_rows(
            "second-minimum/sum", "smoke", 1, tmp_path / "file/runs", [], None, None, Machine()
        )


def test_long_names_of_variants_are_cut_and_stay_apart():
    changes = [f"aggregator.options.number_{n}={n}" for n in range(20)]
    long, other = variant_name("smoke", changes), variant_name("smoke", [*changes, "a.b=1"])
    assert len(long) <= 200
    assert long != other
    assert long.startswith("smoke+aggregator.options.number_0=0+")
    assert variant_name("smoke", ["b=2", "a=1"]) == "smoke+a=1+b=2"


def test_names_of_variants_need_no_quotes_and_stay_apart():
    changes = ["evaluation.sizes=1,2", "evaluation.sizes=1_2", 'a.options={"b": 1}', "a=b/c", "a=é"]
    names = [variant_name("smoke", [change]) for change in changes]
    assert names[0].startswith("smoke+evaluation.sizes=1_2-")
    assert names[1] == "smoke+evaluation.sizes=1_2"
    assert all(name == shlex.quote(name) and "," not in name for name in names)
    assert len(set(names)) == len(names)


def listen():
    """Let Ctrl-C reach a process, even if these tests run in the background, where none does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_sweep_that_is_stopped_waits_for_its_runs_to_save(tmp_path, number):
    command = [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "sweep",
               "second-minimum/sum", "--preset", "smoke", "--seeds", "2",
               "--workers", "2", "--out", str(tmp_path), "--set", "training.epochs=100000",
                "--set", "evaluation.sizes=1"]  # fmt: skip
    sweep = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen
    )
    started = set()
    while len(started) < 2:
        line = sweep.stdout.readline()
        assert line, sweep.stderr.read()
        started |= {seed for seed in "01" if f"seed {seed}: epoch" in line}
    sweep.send_signal(number)
    out, errors = sweep.communicate(timeout=100)
    assert sweep.returncode == 130, errors
    assert out.count("stopped by SIGTERM at epoch") == 2
    records = [Record.read(path.parent) for path in Path(tmp_path).rglob("record.json")]
    assert [record.status for record in records] == ["stopped", "stopped"]


class Gone:
    """A process that is over, with this exit code and these lines on standard error."""

    def __init__(self, code, *errors):
        self.code, self.stdout, self.stderr = code, [], [f"{line}\n" for line in errors]

    def wait(self):
        return self.code


class Shown(Silent):
    def __init__(self):
        self.messages = []

    def finish(self, name, message):
        self.messages.append(message)


def outcome(monkeypatch, out, child, are_stopped):
    children, shown = Children(), Shown()
    if are_stopped:
        children.stop()
    monkeypatch.setattr(children, "start", lambda command: nullcontext(child))
    return _run(job(out), shown, children), shown.messages


def test_a_run_that_a_stopped_sweep_ends_too_early_is_interrupted_not_failed(tmp_path, monkeypatch):
    code, messages = outcome(monkeypatch, tmp_path, Gone(-15), are_stopped=True)
    assert (code, messages) == (130, ["stopped before it began"])
    code, messages = outcome(monkeypatch, tmp_path, Gone(-15), are_stopped=False)
    assert (code, messages) == (-15, ["failed: exit code -15"])


def test_a_finished_run_is_reported_however_its_process_ended(tmp_path, monkeypatch):
    folder = job(tmp_path).folder
    folder.mkdir(parents=True)
    replace(begun(), status="finished", metrics={"accuracy@32": 0.5}).write(folder)
    code, messages = outcome(monkeypatch, tmp_path, Gone(-15), are_stopped=True)
    assert code == 0
    assert messages == ["accuracy@32 0.500  (0 epochs, 0 s)"]
