"""Python calls between `aggregator(x, index)` and the arithmetic, and the files they are in.

    python -m benchmarks.call_depth

Counts what `sys.setprofile` sees in one warm forward pass until it reaches the kernel: calls of
Python functions in treefold, and their files. Torch's own are counted apart.
"""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import treefold

KERNELS = ("binary_gru", "gated_selection", "gru_chain")
ROOT = str(Path(treefold.__file__).parent)


def calls_of(run: Any) -> tuple[Counter[str], int]:
    """Calls of treefold's functions by file before `run()` is in the kernel, and of all others."""
    ours: Counter[str] = Counter()
    others, is_there = 0, False

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal others, is_there
        if event != "call" or is_there:
            return
        name = frame.f_code.co_filename
        if name.startswith(ROOT):
            ours[name.removeprefix(ROOT + "/")] += 1
        else:
            others += 1
        operation = getattr(frame.f_locals.get("self"), "_qualified_op_name", "")
        is_there = operation.removeprefix("treefold::") in KERNELS

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return ours, others


def calls_of_aggregator(name: str, training: bool) -> tuple[Counter[str], int]:
    """The same of a warm aggregator in training, or in evaluation."""
    x, index = torch.randn(500, 16), torch.randint(0, 60, (500,))
    module = treefold.aggregator(name, 16).train(training)
    for _ in range(2):
        module(x, index, dim_size=60)
    return calls_of(lambda: module(x, index, dim_size=60))


def main() -> None:
    """Print the counts for some names of the registry, training apart from evaluation."""
    for name in ("binary-gru", "gated-selection", "gru"):
        for training in (True, False):
            ours, others = calls_of_aggregator(name, training)
            total = sum(ours.values())
            mode = "training" if training else "evaluation"
            print(f"{name} in {mode}: {total} calls in {len(ours)} files, {others} of others")
            for file, count in ours.most_common():
                print(f"    {count:4} {file}")


if __name__ == "__main__":
    main()
