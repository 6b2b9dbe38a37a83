"""Runs a function in several processes that fold together, and gives what each returned."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

TIMEOUT = timedelta(seconds=60)


def in_processes(world_size: int, function: Any, folder: Path, backend: str = "gloo") -> list[Any]:
    """`function(rank, world_size)` of every rank; tensors and plain data only."""
    folder.mkdir(parents=True, exist_ok=True)
    # A fork has everything imported, and this process has one thread; CUDA cannot be forked.
    spawned = torch.multiprocessing.start_processes(
        _run,
        args=(world_size, function, str(folder), backend),
        nprocs=world_size,
        join=False,
        start_method="fork" if backend == "gloo" else "spawn",
    )
    deadline = time.monotonic() + 2 * TIMEOUT.total_seconds()
    try:
        while not spawned.join(timeout=5):
            assert time.monotonic() < deadline, "the processes wait for each other"
    finally:
        for process in spawned.processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(world_size)]


def _run(rank: int, world_size: int, function: Any, folder: str, backend: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world_size,
        timeout=TIMEOUT,
    )
    torch.save(function(rank, world_size), Path(folder) / f"{rank}.pt")
    dist.barrier()
    os._exit(0)  # gloo's threads sometimes deadlock when the process group is taken down
