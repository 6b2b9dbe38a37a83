"""Records are for the command line and for reports, which must not wait for torch."""

import subprocess
import sys
from pathlib import Path

import treefold
import treefold.lab.runs

SOURCE = Path(treefold.__file__).parents[1]


def test_records_are_read_and_written_without_torch():
    program = (
        "import sys\n"
        "from treefold.lab.runs import MetricsLog, Record, commit, find_runs, hardware, locked\n"
        "commit(), hardware()\n"
        "print('torch' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "False"


def test_every_name_of_the_door_exists_once():
    names = treefold.lab.runs.__all__
    assert sorted(names) == sorted(set(names))
    assert all(hasattr(treefold.lab.runs, name) for name in names)
