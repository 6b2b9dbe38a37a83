"""`python -m benchmarks`: every ratio, with one thread and with two, and a dated page of them.

Run it while nothing else runs. `--only NAME` runs one case, `--threads N` one number of threads;
without them the page is written, and where Ray is installed that of tables too.
"""

import argparse
import json
import sys
from importlib.util import find_spec

import torch

from benchmarks import cases, engine, hub, living, multitask, realworld, sharded
from benchmarks.memory import printed_by
from benchmarks.pages import HERE, made_by, page_path, table

CASES = (*engine.CASES, *cases.CASES, *living.CASES)
COLUMNS = ("what", "against", "ratio (quartiles)", "to reach", "reached", "note")


def rows_in_this_process(threads: int, only: str | None) -> list[list[str]]:
    torch.set_num_threads(threads)
    rows = []
    for case in CASES:
        if only not in (None, case.__name__):
            continue
        torch.manual_seed(0)
        for result in case():
            verdict = "yes" if result.reached else "**no**"
            row = [result.what, result.against, str(result.ratio), result.reach, verdict]
            rows.append([*row, result.note])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def rows_in_a_process(threads: int) -> list[list[str]]:
    """A fresh process per number of threads: torch's thread pool remembers its past."""
    rows: list[list[str]] = json.loads(printed_by("benchmarks", "--threads", str(threads)))
    return rows


def hub_row() -> list[str]:
    ours, theirs = hub.in_a_process("treefold"), hub.in_a_process("pyg")
    faster, smaller = theirs.seconds / ours.seconds, theirs.bytes / ours.bytes
    return [
        f"PyG `LCMAggregation`, forward, {hub.NODES:,} nodes, {hub.EDGES:,} edges, "
        f"a hub of degree {hub.HUB:,}, width {hub.WIDTH}",
        "treefold `LCMAggregation`",
        f"{faster:,.0f}x the time, {smaller:,.0f}x the peak memory",
        "at least 1,000x and 200x",
        "yes" if faster >= 1000 and smaller >= 200 else "**no**",
        f"{theirs.seconds:.1f} s and {theirs.bytes / 2**30:.1f} GiB against "
        f"{ours.seconds * 1e3:.0f} ms and {ours.bytes / 2**20:.0f} MiB, one thread",
    ]


def page(tables: dict[str, list[list[str]]]) -> str:
    lines = [
        "# The speed of treefold's folds, as ratios",
        "",
        made_by("make bench", "torch", "torch_geometric"),
        "",
        "Width 128, float32, forward and backward, unless a row says otherwise. An aggregator is "
        "called as by a layer, which includes shuffling and planning. Both sides of a "
        "ratio are timed in turn, round by round, in one process; a ratio is the median over "
        "rounds, with its quartiles.",
    ]
    for title, rows in tables.items():
        lines += ["", f"## {title}", "", *table(COLUMNS, rows)]
    notes = HERE / "notes.md"
    return "\n".join(lines) + "\n\n" + notes.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", choices=[case.__name__ for case in CASES])
    arguments = parser.parse_args()
    if arguments.threads or arguments.only:
        print(json.dumps(rows_in_this_process(arguments.threads or 1, arguments.only)))
        return
    tables = {
        "One thread": rows_in_a_process(1),
        "Two threads": rows_in_a_process(2),
        "Time and memory beside a hub": [hub_row()],
        "Memory of a stream": [living.stream_row()],
        "Graphs that change": json.loads(printed_by("benchmarks.living", "--graphs")),
        "Folds in parts": sharded.rows(),
        "Training on graphs": [*realworld.rows(), *multitask.rows()],
    }
    path = page_path("folds")
    path.write_text(page(tables))
    print(path.read_text())
    if find_spec("ray") is None:
        print("no prices of tables: they need Ray; pip install 'treefold[ray]'", file=sys.stderr)
        return
    print(printed_by("benchmarks.tables"))


if __name__ == "__main__":
    main()
