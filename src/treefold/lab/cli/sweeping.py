"""Sweeps: many runs, several at once, each in a process of its own."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from treefold.atomic import check_writable, write_atomically
from treefold.cores import num_cores
from treefold.lab.cli.commands import in_short
from treefold.lab.cli.display import Display, choose_display
from treefold.lab.cli.errors import INTERRUPTED
from treefold.lab.cli.manifest import Entry, Job, jobs_of
from treefold.lab.runs import LOG_FILE, RECORD_FILE


def sweep_rows(
    entries: list[Entry],
    out: Path,
    workers: int | None = None,
    slurm: list[str] | None = None,
    results: Path | None = None,
) -> None:
    """Make every run that is not finished yet; fails if any of them does.

    With `results`, the record and the log of each finished run are copied there, and a run that
    has its record there is not made again.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}; expected 1 or more")
    jobs = list(jobs_of(entries, out))
    for folder in filter(None, (out, results)):
        check_writable(folder)
    for job in jobs:
        copy_record(job, results)
    left = [job for job in jobs if not (job.is_finished() or job.is_finished(results))]
    print(f"{len(jobs)} runs, {len(jobs) - len(left)} of them finished already", flush=True)
    if slurm is not None:
        submit(left, slurm, out)
        return
    failed = run_here(left, workers or num_cores(), results)
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(left)} runs failed: {', '.join(failed)}; "
            "the same command resumes them"
        )


def copy_record(job: Job, results: Path | None) -> None:
    """Copy the record and the log of a finished run below `results`, if it is not there."""
    if results is None or not job.is_finished() or job.is_finished(results):
        return
    folder = job.folder_in(results)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (LOG_FILE, RECORD_FILE):  # the record last: with it the run is there
        write_atomically(folder / name, (job.folder / name).read_bytes())


def run_here(jobs: list[Job], workers: int, results: Path | None = None) -> list[str]:
    """Run the jobs on this machine, `workers` at once; returns the titles of those that failed.

    Ctrl-C and SIGTERM are passed on to the runs, which save before they go.
    """
    children = Children()
    with (
        choose_display(json_lines=False) as display,
        _sigterm_as_interrupt(),
        ThreadPoolExecutor(workers) as pool,  # waits for its threads, and so for the runs
    ):
        try:
            codes = list(pool.map(lambda job: _run(job, display, children, results), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise
    return [job.title for job, code in zip(jobs, codes, strict=True) if code]


class Children:
    """The processes of a sweep; once they are stopped, no more are started."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str] | None] = set()
        self._stopped, self._lock = False, threading.Lock()

    @contextmanager
    def start(self, command: list[str]) -> Iterator["subprocess.Popen[str] | None"]:
        """A process that is known to be running inside."""
        with self._lock:
            if self._stopped:
                child = None
            else:
                child = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                    start_new_session=True,  # Ctrl-C reaches us, and we ask the children to stop
                )
                self._running.add(child)
        try:
            yield child
        finally:
            with self._lock:
                self._running.discard(child)

    @property
    def are_stopped(self) -> bool:
        """True once they have been asked to."""
        return self._stopped

    def stop(self) -> None:
        """Ask all to save and go."""
        with self._lock:
            self._stopped = True
            for child in filter(None, self._running):
                child.terminate()


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Inside, SIGTERM acts as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can hear signals
        return
    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


def _run(job: Job, display: Display, children: Children, results: Path | None = None) -> int:
    errors: list[str] = []
    with children.start(job.command()) as child:
        if child is None:
            return INTERRUPTED
        reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()), daemon=True)
        reader.start()
        for line in child.stdout or ():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if event.get("kind") in ("step", "epoch", "evaluated"):
                display.show(job.title, event)
        code = child.wait()
        reader.join()
    record = job.record()
    if record is not None and record.status == "finished":
        copy_record(job, results)
        display.finish(job.title, in_short(record))
        return 0
    reason = errors[-1].strip() if errors else f"exit code {code}"
    if children.are_stopped:  # perhaps before the run could listen to signals
        code, reason = INTERRUPTED, reason if errors else "stopped before it began"
    display.finish(job.title, reason if code == INTERRUPTED else f"failed: {reason}")
    return code


def submit(jobs: list[Job], parameters: list[str], out: Path) -> None:
    """Hand the jobs to SLURM, one each; the same command later skips what is done."""
    try:
        import submitit
    except ImportError:
        raise ValueError("SLURM needs submitit: pip install 'treefold[slurm]'") from None
    settings = dict(item.partition("=")[::2] for item in parameters)
    cluster = settings.pop("cluster", "slurm")
    if cluster == "slurm" and shutil.which("sbatch") is None:
        raise ValueError(
            "--slurm is given, but there is no sbatch here; call it where jobs are submitted, or "
            "leave out --slurm"
        )
    executor = submitit.AutoExecutor(folder=out / "slurm", cluster=cluster)
    try:
        executor.update_parameters(
            **{
                key
                if key.startswith(("mem", "timeout", "cpus", "gpus", "tasks", "nodes", "slurm"))
                else f"slurm_{key}": int(value) if value.isdigit() else value
                for key, value in settings.items()
            }
        )
    except (NameError, RuntimeError, TypeError) as error:  # as submitit refuses them
        raise ValueError(f"--slurm {' '.join(parameters)}: {error}") from None
    for job in jobs:
        submitted = executor.submit(subprocess.run, job.command(), check=True)
        print(f"{job.title}: submitted as {submitted.job_id}", flush=True)
