"""Sweeps: many runs from a manifest, several at once, each in a process of its own."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from treefold.cli.commands import in_short, run_folder
from treefold.cli.display import Display, choose_display
from treefold.experiments.build import routine_of
from treefold.experiments.catalogue import find_experiment, find_preset
from treefold.experiments.overrides import override
from treefold.experiments.run import as_json
from treefold.records import Record, write_atomically
from treefold.records.record import FILE_NAME


@dataclass(frozen=True)
class Job:
    """One line of a manifest: a run to be made."""

    name: str
    preset: str
    seed: int
    out: str
    assignments: tuple[str, ...]

    @property
    def title(self) -> str:
        """What to call it on the screen."""
        return f"{self.name} seed {self.seed}"

    @property
    def folder(self) -> Path:
        """Where the run goes."""
        return run_folder(Path(self.out), self.name, self.preset, self.seed, list(self.assignments))

    def command(self) -> list[str]:
        """The command that makes the run."""
        sets = [part for item in self.assignments for part in ("--set", item)]
        return [
            *(sys.executable, "-W", "ignore", "-m", "treefold.cli", "train", self.name),
            *("--preset", self.preset, "--seed", str(self.seed), "--out", self.out),
            *("--threads", "1", "--json-lines", *sets),
        ]

    def is_finished(self) -> bool:
        """Whether the run is there, with everything evaluated that the recipe asks for."""
        record = self.record()
        if record is None or record.status != "finished":
            return False
        experiment = find_experiment(self.name, self.preset)[0]
        wanted = override(experiment, list(self.assignments))[0].recipe()
        return record.recipe == as_json(wanted)

    def record(self) -> Record | None:
        """The run's record, if it has one."""
        return Record.read(self.folder) if (self.folder / FILE_NAME).exists() else None


def sweep_rows(
    recipe: str,
    preset: str,
    seeds: int | None,
    out: Path,
    assignments: list[str],
    workers: int | None,
    slurm: list[str] | None,
) -> None:
    """Make every run that is not finished yet; fails if any of them does."""
    jobs = list(manifest(recipe, preset, seeds, out, assignments))
    lines = "".join(json.dumps(asdict(job)) + "\n" for job in jobs)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / f"{recipe.replace('/', '-')}-{preset}.manifest.jsonl", lines.encode())
    left = [job for job in jobs if not job.is_finished()]
    print(f"{len(jobs)} runs, {len(jobs) - len(left)} of them finished already", flush=True)
    if slurm is not None:
        submit(left, slurm, out)
        return
    failed = run_here(left, workers or len(os.sched_getaffinity(0)))
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(left)} runs failed: {', '.join(failed)}; "
            "the same command goes on with them"
        )


def manifest(
    recipe: str, preset: str, seeds: int | None, out: Path, assignments: list[str]
) -> Iterator[Job]:
    """The runs of a sweep, seed by seed; wrong names and values and missing data are found
    out here."""
    count = find_preset(recipe, preset).num_seeds if seeds is None else seeds
    if count < 1:
        raise ValueError(f"{count} seeds; expected 1 or more")
    for seed in range(count):
        for experiment in find_experiment(recipe, preset):
            changed, _ = override(experiment, assignments)
            routine_of(changed, seed).require_data()
            yield Job(experiment.name, preset, seed, str(out), tuple(assignments))


def run_here(jobs: list[Job], workers: int) -> list[str]:
    """Run the jobs on this machine, `workers` at once; gives the titles of those that failed."""
    children: set[subprocess.Popen[str]] = set()
    lock = threading.Lock()
    with choose_display(json_lines=False) as display, ThreadPoolExecutor(workers) as pool:
        try:
            codes = list(pool.map(lambda job: _run(job, display, children, lock), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            with lock:
                for child in children:
                    child.terminate()  # they save before they go
            raise
    return [job.title for job, code in zip(jobs, codes, strict=True) if code]


def _run(
    job: Job, display: Display, children: set["subprocess.Popen[str]"], lock: threading.Lock
) -> int:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    child = subprocess.Popen(
        job.command(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches us, and we ask the children to stop
    )
    with lock:
        children.add(child)
    errors: list[str] = []
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
    with lock:
        children.discard(child)
    record = job.record()
    if code == 0 and record is not None:
        display.finish(job.title, in_short(record))
    else:
        reason = errors[-1].strip() if errors else f"exit code {code}"
        display.finish(job.title, f"failed: {reason}")
    return code


def submit(jobs: list[Job], parameters: list[str], out: Path) -> None:
    """Hand the jobs to SLURM, one each; the same command later skips what is done."""
    try:
        import submitit
    except ImportError:
        raise ValueError("SLURM needs submitit: pip install 'treefold[slurm]'") from None
    settings = dict(item.partition("=")[::2] for item in parameters)
    cluster = settings.pop("cluster", None)
    executor = submitit.AutoExecutor(folder=out / "slurm", cluster=cluster)
    executor.update_parameters(
        **{
            key
            if key.startswith(("mem", "timeout", "cpus", "gpus", "tasks", "nodes", "slurm"))
            else f"slurm_{key}": int(value) if value.isdigit() else value
            for key, value in settings.items()
        }
    )
    for job in jobs:
        submitted = executor.submit(subprocess.run, job.command(), check=True)
        print(f"{job.title}: submitted as {submitted.job_id}", flush=True)
