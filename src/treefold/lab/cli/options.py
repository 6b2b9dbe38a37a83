"""Options that several commands share, and what they mean."""

import dataclasses
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Assignments = Annotated[
    list[str] | None,
    Parameter(
        name=["--set"],
        consume_multiple=False,
        negative=(),
        help="Override the recipe: training.epochs=5.",
    ),
]
Recipe = Annotated[str, Parameter(help="EXPERIMENT or EXPERIMENT/ROW; `treefold list`.")]
RunFolder = Annotated[Path, Parameter(help="The folder of a run, as train or compare leaves it.")]
RunPath = Annotated[
    Path,
    Parameter(
        help="A run's folder, one checkpoint in it, a saved model, or the name of one that comes "
        "with treefold, such as trained/second-minimum; `treefold list`."
    ),
]
Preset = Annotated[str, Parameter(help="smoke, quick, standard or paper.")]
Debug = Annotated[bool, Parameter(negative=(), help="Show the traceback of an error.")]
Out = Annotated[Path, Parameter(help="Where run folders go.")]
Data = Annotated[
    Path | None,
    Parameter(
        name=["--data"],
        help="The folder of all data sets of real graphs; TREEFOLD_DATA or the cache if not given.",
    ),
]


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine to run on."""

    device: str | None = None
    """cpu, cuda, mps or auto; cpu if not given."""
    precision: str | None = None
    """32-true, 64-true, bf16-mixed, 16-mixed or bf16-true; 32-true if not given."""
    processes: int | None = None
    """Processes that share the work on a model (DDP); 1 if not given, or those of torchrun."""
    threads: int | None = None
    """Threads per process; all cores if not given."""


Where = Annotated[Machine, Parameter(name="*")]
HERE = Machine()


def use_data(folder: Path | None) -> None:
    """Let all tasks look for their files there, those of other processes we start too."""
    if folder is not None:
        if not folder.is_dir():
            raise ValueError(f"--data is {folder}, no folder; give the one of all data sets")
        os.environ["TREEFOLD_DATA"] = str(folder.resolve())
