"""Sweeps: the commands of their runs, their end, and damaged records."""

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
from treefold.lab.cli.manifest import Entry, Job, entries_of, jobs_of
from treefold.lab.cli.sweeping import Children, _run, copy_record, sweep_rows
from treefold.lab.experiments.catalogue import find_experiment, runner_of
from treefold.lab.experiments.realworld_runner import RealWorldRunner
from treefold.lab.experiments.running import new_record
from treefold.lab.runs import Record


def job(out, **options):
    return Job("second-minimum/sum", "smoke", 0, str(out), (), **options)


def test_device_and_precision_reach_every_run(tmp_path):
    entry = Entry(("second-minimum/sum",), "smoke", 1, (), "cuda", "bf16-mixed")
    (made,) = jobs_of([entry], tmp_path)
    command = made.command()
    assert command[command.index("--device") + 1] == "cuda"
    assert command[command.index("--precision") + 1] == "bf16-mixed"
    assert made.folder.parent.name == "smoke+precision=bf16-mixed"


def test_a_precision_that_cannot_work_is_refused_before_any_run(tmp_path):
    with pytest.raises(ValueError, match="16-true"):
        list(jobs_of([Entry(("second-minimum/sum",), "smoke", precision="16-true")], tmp_path))


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


USUAL = Entry((), "smoke", 2, ("training.epochs=1",))
MANIFEST = """
[[runs]]  # rank A
rows = ["second-minimum/sum", "second-minimum/max"]
seeds = [4, 3]

[[runs]]
rows = "second-minimum"
preset = "quick"
seeds = 1
set = ["model.channels=8"]
precision = "bf16-mixed"
"""


def written(folder, text):
    path = folder / "manifest.toml"
    path.write_text(text)
    return str(path)


def test_a_manifest_names_runs_in_order_seed_by_seed(tmp_path):
    jobs = list(jobs_of(entries_of(written(tmp_path, MANIFEST), USUAL), tmp_path / "runs"))
    assert [(job.name, job.preset, job.seed) for job in jobs[:4]] == [
        (f"second-minimum/{row}", "smoke", seed) for seed in (3, 4) for row in ("sum", "max")
    ]
    assert {job.assignments for job in jobs[:4]} == {("training.epochs=1",)}
    assert [job.name.partition("/")[2] for job in jobs[4:]] == [
        *("gru", "binary-gru-assoc", "binary-gru", "pna", "max", "sum")
    ]
    assert {(job.preset, job.seed, job.precision) for job in jobs[4:]} == {
        ("quick", 0, "bf16-mixed")
    }
    assert jobs[4].assignments == ("training.epochs=1", "model.channels=8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[runs]]\nrow = 'parity'", "runs 1 has row; expected only rows, preset, seeds, set, dev"),
        ("[[runs]]\npreset = 'quick'", r'names no rows; expected rows = \["EXPERIMENT/ROW", ...\]'),
        ("[[runs]]\nrows = 3", "runs 1 has rows = 3; expected a list of str"),
        ("[[runs]]\nrows = 'parity'\nseeds = ['1']", "expected a list of int"),
        ("[[runs]]\nrows = 'parity/sun'", "did you mean sum"),
        ("[[runs]]\nrows = 'parity/sum'\nseeds = [-1]", "--seed is -1; expected 0 or more"),
        ("[[runs]]\nrows = ['parity/sum', 'parity/sum']\nseeds = 1", "is named twice; name it onc"),
        ("[[jobs]]\nrows = 'parity'", r"has jobs; expected \[\[runs\]\] alone"),
        ("rows", "manifest.toml is not TOML"),
    ],
)
def test_a_wrong_manifest_is_refused_before_any_run(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        list(jobs_of(entries_of(written(tmp_path, text), USUAL), tmp_path))


def test_the_ready_manifest_names_runs_that_exist(tmp_path, monkeypatch):
    monkeypatch.setattr(RealWorldRunner, "require_data", lambda self: None)
    path = Path(__file__).parents[3] / "results/manifest.toml"
    jobs = list(jobs_of(entries_of(str(path), Entry(())), tmp_path))
    assert len(jobs) > 100
    assert jobs[0].name == "second-minimum-associativity/binary-gru"


def finished(job):
    folder = job.folder
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("epoch\n1\n")
    replace(begun(), status="finished", metrics={"accuracy@32": 0.5}).write(folder)
    return folder


def test_records_are_copied_as_runs_finish_and_not_made_again(tmp_path, monkeypatch):
    folder = finished(job(tmp_path / "runs"))
    copy_record(job(tmp_path / "runs"), tmp_path / "results")
    (kept,) = (tmp_path / "results").rglob("seed-0")
    assert kept.relative_to(tmp_path / "results") == folder.relative_to(tmp_path / "runs")
    for name in ("record.json", "metrics.csv"):
        assert (kept / name).read_bytes() == (folder / name).read_bytes()
    made = []
    monkeypatch.setattr(
        "treefold.lab.cli.sweeping.run_here", lambda jobs, *_: made.extend(jobs) or []
    )
    entry = Entry(("second-minimum/sum",), "smoke", (0, 1))
    sweep_rows([entry], tmp_path / "elsewhere", results=tmp_path / "results")
    assert [job.seed for job in made] == [1]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*file/runs"):
        sweep_rows([Entry(("second-minimum/sum",), "smoke", 1)], tmp_path / "file/runs")


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


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
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
    finished(job(tmp_path))
    code, messages = outcome(monkeypatch, tmp_path, Gone(-15), are_stopped=True)
    assert code == 0
    assert messages == ["accuracy@32 0.500  (0 epochs, 0 s)"]
