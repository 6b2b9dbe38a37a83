"""The command line: quick to answer, one-line errors, and the whole path from train to laws."""

import signal
import subprocess
import sys
import time

import pytest
from lab.cli.called import started, treefold

from treefold.lab.cli.commands import run_folder
from treefold.lab.cli.manifest import Entry, jobs_of
from treefold.lab.experiments.set_runner import parse_sizes
from treefold.lab.runs import MetricsLog, Record

TINY_CHANGES = ["training.epochs=1", "task.num_train=64", "model.channels=8",
                "task.num_evaluation=4", "evaluation.sizes=1,2,32"]  # fmt: skip
TINY = ["--preset", "smoke", "--threads", "1"]
TINY += [part for change in TINY_CHANGES for part in ("--set", change)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    done = treefold("train", "second-minimum/binary-gru", "--out", out, *TINY)
    (record,) = out.rglob("record.json")
    return done, record.parent


def test_training_prints_plain_lines_and_leaves_a_record(trained):
    done, folder = trained
    assert "epoch 1/1" in done.stdout
    assert "accuracy@32" in done.stdout
    assert "\x1b" not in done.stdout
    record = Record.read(folder)
    assert record.status == "finished"
    assert record.overrides["training.epochs"] == 1


def test_a_finished_run_can_be_resumed_evaluated_and_asked_for_its_laws(trained):
    _, folder = trained
    assert "accuracy@32" in treefold("resume", folder).stdout
    scores = treefold("evaluate", folder, "--sizes", "1-3,40").stdout.split()
    assert scores[0::2][:4] == ["1", "2", "3", "40"]
    mixed = treefold("evaluate", folder, "--sizes", "2,3,balanced:16").stdout.splitlines()
    assert [line.rsplit(maxsplit=1)[0].strip() for line in mixed[:3]] == ["2", "3", "balanced 16"]
    report = treefold("laws", folder).stdout
    for law in ("identity (formal)", "identity (of e)", "commutativity", "associativity"):
        assert law in report


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "second-minimun/gru"], "did you mean second-minimum"),
        (["train", "second-minimum/gru", "--preset", "quik"], "did you mean quick"),
        (["train", "second-minimum/gru", "--set", "training.epoch=1"], "training.epochs"),
        (["resume", "nowhere"], "nowhere has no record.json"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(tmp_path, arguments, message):
    done = treefold(*arguments, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_sweep_makes_its_runs_and_a_failed_one_alone_by_the_same_command(tmp_path):
    sweep = ["sweep", "second-minimum/sum", "--seeds", "2", "--out", tmp_path, *TINY]
    sweep = [part for part in sweep if part not in ("--threads", "1")]
    entry = Entry(("second-minimum/sum",), "smoke", (1,), tuple(TINY_CHANGES))
    (folder,) = {job.folder for job in jobs_of([entry], tmp_path)}
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where a folder has to be")
    failed = started(*sweep, code=3)
    assert "sum seed 1: failed: treefold: cannot write" in failed.stdout
    assert "1 of 2 runs failed: second-minimum/sum seed 1" in failed.stderr
    folder.unlink()
    again = started(*sweep)
    assert "2 runs, 1 of them finished already" in again.stdout
    assert "seed 0" not in again.stdout
    assert Record.read(folder).status == "finished"
    assert "2 runs, 2 of them finished already" in treefold(*sweep).stdout


def test_numbers_that_are_not_finite_leave_exit_code_3(tmp_path):
    wild = ["train", "second-minimum/sum", "--out", tmp_path, *TINY]
    wild += ["--set", "training.learning_rate=1e39", "--set", "training.schedule=constant"]
    (line,) = treefold(*wild, code=3).stderr.splitlines()
    assert line.startswith("treefold: at epoch 1, step")
    assert "Try a smaller training.learning_rate" in line


def test_with_debug_an_error_is_raised():
    wrong = ["train", "second-minimum/gru", "--preset", "quik"]
    (line,) = treefold(*wrong, code=2).stderr.splitlines()
    assert line.startswith("treefold: ")
    with pytest.raises(ValueError, match="did you mean quick"):
        treefold(*wrong, "--debug")


def test_sizes_are_read_as_ranges():
    assert parse_sizes("1-3,32") == (1, 2, 3, 32)
    for wrong in ("a", "", "0-2", "3-1,x"):
        with pytest.raises(ValueError, match="expected"):
            parse_sizes(wrong)


def test_overrides_are_part_of_a_run_s_folder(tmp_path):
    plain = run_folder(tmp_path, "task/row", "quick", 0, [])
    changed = run_folder(tmp_path, "task/row", "quick", 0, ["training.epochs=5"])
    assert plain != changed
    assert plain == tmp_path / "task" / "row" / "quick" / "seed-0"
    assert changed == tmp_path / "task" / "row" / "quick+training.epochs=5" / "seed-0"


def test_a_run_in_a_folder_with_an_earlier_name_is_found(tmp_path):
    earlier = tmp_path / "task" / "row" / "quick,training.epochs=5" / "seed-0"
    earlier.mkdir(parents=True)
    assert run_folder(tmp_path, "task/row", "quick", 0, ["training.epochs=5"]) == earlier
    assert run_folder(tmp_path, "task/row", "quick", 1, ["training.epochs=5"]) != earlier


def test_two_processes_train_one_model_with_the_losses_of_one(tmp_path):
    """Without shuffling and law losses, the mean over a batch is that of its halves."""
    options = [
        *TINY,
        "--set",
        "aggregator.options.shuffle=false",
        "--set",
        "aggregator.options.bracketing=balanced",
    ]
    rows = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        done = started(
            "train", "second-minimum/binary-gru", "--out", out, "--processes", processes, *options
        )
        assert done.stdout.count("epoch 1/1") == 1
        (folder,) = [path.parent for path in out.rglob("record.json")]
        rows.append(MetricsLog.read(folder)[0])
    for column in ("train_loss", "validation_loss", "train_accuracy", "law:associativity"):
        assert rows[0][column] == pytest.approx(rows[1][column], rel=1e-4)


def test_a_stopped_run_leaves_exit_code_130_and_can_be_resumed(tmp_path):
    arguments = ["train", "second-minimum/sum", "--preset", "smoke", "--threads", "1"]
    arguments += [
        "--set",
        "training.epochs=1000",
        "--set",
        "evaluation.sizes=1,32",
        "--out",
        tmp_path,
    ]
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "epoch 1/1000" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped by SIGINT" in errors
    assert "treefold resume" in errors
    (folder,) = [path.parent for path in tmp_path.rglob("record.json")]
    assert Record.read(folder).status == "stopped"


def test_a_sweep_is_handed_to_a_cluster_one_job_a_run(tmp_path):
    """submitit's own stand-in for SLURM runs the jobs here."""
    sweep = ["sweep", "second-minimum/sum", "--seeds", "2", "--out", tmp_path]
    sweep += [part for part in TINY if part not in ("--threads", "1")]
    done = started(*sweep, "--slurm", "cluster=local", "--slurm", "timeout_min=5")
    assert done.stdout.count("submitted as") == 2
    deadline = time.monotonic() + 120
    finished = set()
    while len(finished) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        records = [Record.read(path.parent) for path in tmp_path.rglob("record.json")]
        finished = {record.seed for record in records if record.status == "finished"}
    assert finished == {0, 1}
    assert "2 runs, 2 of them finished already" in treefold(*sweep).stdout
