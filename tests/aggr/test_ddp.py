"""Law losses under DistributedDataParallel: two processes train as one."""

import time

import torch
import torch.multiprocessing
from aggr.two_processes import TIMEOUT, WORLD_SIZE, Model, run, step


def test_two_processes_have_the_gradients_of_one_that_averages_their_batches(tmp_path):
    spawned = torch.multiprocessing.spawn(run, args=(str(tmp_path),), nprocs=WORLD_SIZE, join=False)
    deadline = time.monotonic() + 2 * TIMEOUT.total_seconds()
    try:
        while not spawned.join(timeout=5):
            assert time.monotonic() < deadline, "the processes wait for each other"
    finally:
        for process in spawned.processes:
            process.kill()

    model = Model()
    for rank in range(WORLD_SIZE):
        step(model, rank)
    for rank in range(WORLD_SIZE):
        grads = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(grads[name], parameter.grad / WORLD_SIZE)
