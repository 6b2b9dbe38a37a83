"""Python calls between `aggregator(x, index)` and the arithmetic, and the files they are in.

    python -m benchmarks.call_depth

Counts what `sys.setprofile` sees in one warm forward pass: calls of Python functions in treefold,
and the files of treefold they stand in. Torch's and PyG's own are counted apart.
"""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import treefold

ROOT = str(Path(treefold.__file__).parent)


def calls_of(run: Any) -> tuple[Counter[str], int]:
    """Calls of treefold's functions by file during `run()`, and the number of all others."""
    ours: Counter[str] = Counter()
    others = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal others
        if event != "call":
            return
        name = frame.f_code.co_filename
        if name.startswith(ROOT):
            ours[name.removeprefix(ROOT + "/")] += 1
        else:
            others += 1

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return ours, others


def main() -> None:
    """Print the counts for some names of the registry, training apart from evaluation."""
    x, index = torch.randn(500, 16), torch.randint(0, 60, (500,))
    for name in ("binary-gru", "gated-selection", "gru", "sum"):
        for training in (True, False):
            module = treefold.aggregator(name, 16).train(training)
            for _ in range(2):
                module(x, index, dim_size=60)
            ours, others = calls_of(lambda module=module: module(x, index, dim_size=60))
            total = sum(ours.values())
            mode = "training" if training else "evaluation"
            print(f"{name} in {mode}: {total} calls in {len(ours)} files, {others} of others")
            for file, count in ours.most_common():
                print(f"    {count:4} {file}")


if __name__ == "__main__":
    main()
