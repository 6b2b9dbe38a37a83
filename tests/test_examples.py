"""Every example runs, in miniature, and ends in numbers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
MINIATURE = {
    "drop_in.py": ["--steps", "2", "--width", "8"],
    "large_set.py": ["--elements", "70000", "--width", "4"],
    "living_graph.py": ["--users", "200", "--edges", "2000", "--width", "4"],
    "events_on_ray.py": ["--epochs", "1", "--events", "2000"],
}
NEEDS = {"events_on_ray.py": "ray"}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_the_example_runs_and_prints_numbers(script):
    if script.name in NEEDS:
        pytest.importorskip(NEEDS[script.name], reason="an extra is not installed")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    done = subprocess.run(
        command + MINIATURE.get(script.name, []), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\.\d", done.stdout)
