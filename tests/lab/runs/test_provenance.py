import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

import treefold
from treefold.cores import num_cores
from treefold.lab.runs import commit, hardware, provenance, versions


def test_versions_are_those_that_run_without_labels(monkeypatch):
    installed = {"torch": "2.13.0+cpu", "numpy": "2.4.6", "lightning-fabric": "2.5"}

    def version(package):
        if package not in installed:
            raise metadata.PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(metadata, "version", version)
    assert versions() == {
        "python": platform.python_version(),
        "treefold": treefold.__version__,
        "torch": "2.13.0",
        "lightning-fabric": "2.5",
        "numpy": "2.4.6",
    }


def test_installed_packages_are_found():
    assert {"torch", "torch_geometric", "numpy"} <= versions().keys()
    assert not any("+" in version for version in versions().values())


def test_hardware_is_that_of_this_process():
    found = hardware()
    assert found["cpu"].strip() not in ("", "unknown")
    assert found["cores"] == len(os.sched_getaffinity(0))
    assert found["memory"] > 2**28


def test_the_processor_is_named_as_linux_names_it():
    lines = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = re.findall(r"^model name\s*: (.*)$", lines, re.MULTILINE)
    if not names:
        pytest.skip("this system does not name its processor in /proc/cpuinfo")
    cpu = hardware()["cpu"]
    assert cpu.startswith(names[0].strip())
    if family := re.search(r"^cpu family\s*: (.*)$", lines, re.MULTILINE):
        assert f"family {family[1]}" in cpu  # a name such as `AMD EPYC` is many processors


def fake_torch(cuda=(), other=None):
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: bool(cuda),
            device_count=lambda: len(cuda),
            get_device_name=lambda n: cuda[n],
        ),
        accelerator=SimpleNamespace(
            is_available=lambda: other is not None,
            current_accelerator=lambda: SimpleNamespace(type=other),
            device_count=lambda: 1,
        ),
    )


@pytest.mark.parametrize(
    ("torch", "names"),
    [
        (None, []),
        (fake_torch(), []),
        (fake_torch(cuda=("A100", "H100"), other="cuda"), ["A100", "H100"]),
        (fake_torch(other="mps"), ["mps"]),
    ],
)
def test_accelerators_are_those_that_torch_knows(monkeypatch, torch, names):
    if torch is None:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "torch", torch)
    assert hardware()["accelerators"] == names
    assert ("torch" in sys.modules) == (torch is not None)


def git(folder, *arguments):
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    answer = subprocess.run(
        ["git", *options, *arguments],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository in which this module lies where it does in ours."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    source = tmp_path / "src" / "treefold" / "lab" / "runs" / "provenance.py"
    source.parent.mkdir(parents=True)
    source.write_text("# source\n")
    (tmp_path / "README.md").write_text("read me\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    monkeypatch.setattr(provenance, "__file__", str(source))
    return tmp_path


def test_a_clean_checkout_is_its_commit(checkout):
    assert commit() == git(checkout, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", commit())


def test_changed_and_new_source_files_make_it_dirty_and_others_do_not(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "README.md").write_text("changed\n")
    (checkout / "results.json").write_text("{}\n")
    assert commit() == head
    new = checkout / "src" / "new.py"
    new.touch()
    assert commit() == f"{head}-dirty"
    new.unlink()
    assert commit() == head
    (checkout / "src" / "treefold" / "lab" / "runs" / "provenance.py").write_text("# changed\n")
    assert commit() == f"{head}-dirty"


def test_a_git_hook_does_not_lead_it_astray(checkout, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("elsewhere")))
    assert commit() == git(checkout, "rev-parse", "HEAD")


def test_an_environment_inside_somebodys_repository_is_unknown(checkout, monkeypatch):
    installed = checkout / ".venv/lib/python3.11/site-packages/treefold/lab/runs/provenance.py"
    installed.parent.mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(installed))
    assert commit() == "unknown"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("git"),
        PermissionError("git"),
        subprocess.TimeoutExpired("git", 5),
        subprocess.CalledProcessError(128, "git"),
    ],
)
def test_where_git_does_not_answer_the_commit_is_unknown(checkout, monkeypatch, error):
    def run(*arguments, **options):
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    assert commit() == "unknown"


def test_a_repository_without_commits_is_unknown(checkout):
    shutil.rmtree(checkout / ".git")
    git(checkout, "init", "--quiet")
    assert commit() == "unknown"


def test_nothing_names_the_host_the_user_or_a_folder(monkeypatch, tmp_path):
    told = repr([versions(), hardware(), commit()])
    host = socket.gethostname()
    assert len(host) < 4 or host not in told
    assert str(Path.home()) not in told or str(Path.home()) == "/"
    assert str(Path(treefold.__file__).parents[2]) not in told


def test_cores_are_counted_where_nobody_can_tell_which_are_ours(monkeypatch):
    assert num_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert num_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_cores() == 1
