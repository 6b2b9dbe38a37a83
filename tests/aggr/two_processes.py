"""One step of data-parallel training, as each of its processes runs it."""

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from treefold import LCMAggregation, record_penalties

CHANNELS = 4
WORLD_SIZE = 2
TIMEOUT = timedelta(seconds=60)
INDICES = (torch.arange(6), torch.tensor([0, 0, 0, 1, 1, 2]))  # rank 0 has only singletons


class Model(nn.Module):
    """A layer, an aggregator with a law loss applied twice, a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(CHANNELS, CHANNELS)
        self.aggregator = LCMAggregation(CHANNELS, associativity=1.0, shuffle=False)
        self.after = nn.Linear(CHANNELS, 1)
        self.double()

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        sets = self.aggregator(self.before(x), index)
        return self.after(self.aggregator(sets, torch.zeros(len(sets), dtype=torch.int64)))


def step(model: nn.Module, rank: int) -> None:
    """Forward and backward on the batch of one rank, with penalties."""
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(6, CHANNELS, generator=generator, dtype=torch.float64)
    with record_penalties() as penalties:
        loss = model(x, INDICES[rank]).square().mean()
    assert len(penalties) == 2
    (loss + penalties.total()).backward()


def run(rank: int, folder: str) -> None:
    """Two steps in one of two processes; the gradients of the second go to `folder`."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=WORLD_SIZE,
        timeout=TIMEOUT,
    )
    model = DistributedDataParallel(Model())
    for _ in range(2):  # the second would hang or raise if the first had missed a parameter
        model.zero_grad()
        step(model, rank)
    grads = {name: parameter.grad for name, parameter in model.module.named_parameters()}
    torch.save(grads, Path(folder) / f"{rank}.pt")
    dist.barrier()
    os._exit(0)  # gloo's threads sometimes deadlock when the process group is taken down
