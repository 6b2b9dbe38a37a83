"""Folds in parts: two processes against one, and a graph of a million nodes in bounded memory.

    python -m benchmarks.sharded processes|graph|layer|training [--nodes N] [--edges E]
                                 [--budget BYTES]

prints a row of the table, as JSON. Times are the processor's where one thread works, so that a busy
machine changes them little; those of two processes are the clock's.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.nn import aggr as pyg

from benchmarks.memory import peak_bytes, printed_by
from benchmarks.timing import timed
from treefold import BinaryGRU, Groups, LCMAggregation, sharded_reduce
from treefold.distributed import NeighbourSampler, infer_layerwise, plan_chunks, shard_sizes
from treefold.distributed.budget import rows_within

WIDTH = 32
SEEDS, FANOUT = 1024, 25
ROUNDS = 5


def rows_of_rank(rank: int, world_size: int, num_rows: int) -> Tensor:
    """One large set, cut at the tree's cuts."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_rows, WIDTH, generator=generator)
    sizes = shard_sizes(torch.tensor([num_rows]), world_size)[:, 0].tolist()
    return x.split(sizes)[rank].clone()


def fold_as_rank(rank: int, world_size: int, num_rows: int, folder: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(minutes=5),
    )
    torch.manual_seed(0)
    op, x = BinaryGRU(WIDTH), rows_of_rank(rank, world_size, num_rows)
    groups = Groups.from_sizes([len(x)])
    with torch.no_grad():
        state = sharded_reduce(op, x, groups)
        seconds = []
        for _ in range(ROUNDS):
            dist.barrier()
            begin = time.process_time()
            clock = timed(lambda: sharded_reduce(op, x, groups))
            seconds.append([clock, time.process_time() - begin])
    torch.save({"state": state, "seconds": torch.tensor(seconds)}, f"{folder}/{rank}.pt")
    dist.barrier()
    os._exit(0)  # gloo's threads sometimes deadlock when the process group is taken down


def seconds_and_state(world_size: int, num_rows: int) -> tuple[list[float], Tensor]:
    """Seconds of the slowest process in the best round: by the clock, and of its processor."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(fold_as_rank, (world_size, num_rows, folder), world_size)
        found = [torch.load(f"{folder}/{rank}.pt") for rank in range(world_size)]
    slowest = torch.stack([rank["seconds"] for rank in found]).amax(0)
    return slowest.amin(0).tolist(), found[0]["state"]


def two_processes(num_rows: int = 2_000_000) -> list[str]:
    (one, alone), (two, together) = (seconds_and_state(n, num_rows) for n in (1, 2))
    apart, faster = float((alone - together).abs().max()), one[0] / two[0]
    return [
        f"one set of {num_rows:,} rows, width {WIDTH}, in one process",
        "in two, one thread each",
        f"{faster:.2f}",
        "at least 1.6x, same answer to rounding",
        "yes" if faster >= 1.6 and apart < 1e-6 else "**no**",
        f"{one[0]:.2f} s against {two[0]:.2f} s; by the time of their processors "
        f"{one[1] / two[1]:.2f}x; answers {apart:.1e} apart",
    ]


def power_law_degrees(num_nodes: int, num_edges: int, exponent: float = 0.8) -> Tensor:
    """Degrees that fall with rank as a power, `num_edges` in all: the first nodes are hubs."""
    share = torch.arange(1, num_nodes + 1, dtype=torch.float64).pow(-exponent)
    wanted = share / share.sum() * num_edges
    degrees = wanted.long()
    missing = num_edges - int(degrees.sum())
    degrees[(wanted - degrees).argsort(descending=True)[:missing]] += 1  # those cut off the most
    return degrees


def floor_seconds(num_rows: int, rows_at_once: int = 8192) -> float:
    """The bare multiplication of every row with the stacked weights, forward only."""
    weight, rows = torch.randn(6 * WIDTH, WIDTH), torch.randn(rows_at_once, WIDTH)
    out = torch.empty(rows_at_once, 6 * WIDTH)
    begin = time.process_time()
    for _ in range(num_rows // rows_at_once):
        torch.mm(rows, weight.t(), out=out)
    return time.process_time() - begin


def large_graph(num_nodes: int, num_edges: int, budget: int) -> list[str]:
    torch.manual_seed(0)
    groups = Groups.from_sizes(power_law_degrees(num_nodes, num_edges))
    x, op = torch.randn(num_nodes, WIDTH), BinaryGRU(WIDTH)
    source = torch.randint(0, num_nodes, (groups.num_rows,))
    begin = time.process_time()
    plan = plan_chunks(groups, rows_within(budget, x))
    planning = time.process_time() - begin
    plan.fold(op, x, source)  # what a plan works out at its first use, it keeps
    quotients = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        out = plan.fold(op, x, source)
        seconds = time.process_time() - begin
        floor = floor_seconds(2 * plan.num_applications)
        quotients.append(seconds / floor)
    assert bool(out.isfinite().all())
    low, middle, high = statistics.quantiles(quotients, n=4)
    peak = peak_bytes()
    return [
        f"{num_nodes:,} nodes, {groups.num_rows:,} edges, hubs up to {groups.max_size:,}, one "
        f"Binary-GRU layer of width {WIDTH}, forward, budget {budget / 2**20:.0f} MiB",
        "the bare multiplication of every non-root row",
        f"{middle:.2f} ({low:.2f} to {high:.2f}), peak {peak / 2**30:.1f} GiB",
        "at most 1.6x, under 8 GB",
        "yes" if middle <= 1.6 and peak < 8e9 else "**no**",
        f"{torch.get_num_threads()} thread, {seconds:.1f} s; planning, once, {planning:.1f} s in "
        f"{len(plan.chunks):,} chunks; {pygs_attempt(groups)}",
    ]


def large_graph_by_layer(num_nodes: int, num_edges: int, budget: int) -> list[str]:
    torch.manual_seed(0)
    groups = Groups.from_sizes(power_law_degrees(num_nodes, num_edges))
    source = torch.randint(0, num_nodes, (groups.num_rows,))
    x, edge_index = torch.randn(num_nodes, WIDTH), torch.stack([source, groups.index])
    conv = SAGEConv(WIDTH, WIDTH, aggr=LCMAggregation(WIDTH)).eval()
    infer_layerwise([conv], x[:1], torch.zeros(2, 9, dtype=torch.int64), budget)  # compiles
    before = peak_bytes()
    begin = time.process_time()
    out = infer_layerwise([conv], x, edge_index, budget)
    seconds, peak = time.process_time() - begin, peak_bytes()
    assert bool(out.isfinite().all())
    floor = floor_seconds(2 * (groups.num_rows - int((groups.sizes > 0).sum())))
    return [
        f"the same graph of {num_nodes:,} nodes, {groups.num_rows:,} edges, hubs up to "
        f"{groups.max_size:,}, one `SAGEConv` with Binary-GRU of width {WIDTH} by "
        f"`infer_layerwise`, budget {budget / 2**20:.0f} MiB, planning included",
        "the bare multiplication of every non-root row",
        f"{seconds / floor:.2f}, peak {peak / 2**30:.1f} GiB",
        "under 8 GB",
        "yes" if peak < 8e9 else "**no**",
        f"{torch.get_num_threads()} thread, {seconds:.1f} s; of the peak, "
        f"{before / 2**30:.1f} GiB were there before it began",
    ]


def training_by_neighbours(num_nodes: int, num_edges: int, steps: int = 20) -> list[str]:
    """Some steps on sampled neighbours; the target is the mean of all neighbours' features."""
    torch.manual_seed(0)
    groups = Groups.from_sizes(power_law_degrees(num_nodes, num_edges))
    source = torch.randint(0, num_nodes, (groups.num_rows,))
    x, edge_index = torch.randn(num_nodes, WIDTH), torch.stack([source, groups.index])
    wanted = pyg.MeanAggregation()(x[source], groups.index, dim_size=num_nodes)
    conv = SAGEConv(WIDTH, WIDTH, aggr=LCMAggregation(WIDTH))
    optimizer = torch.optim.Adam(conv.parameters(), 1e-2)
    begin = time.process_time()
    sampler = NeighbourSampler(edge_index, num_nodes, [FANOUT])
    preparing, before = time.process_time() - begin, peak_bytes()
    seconds, losses = [], []
    for _ in range(steps):
        begin = time.process_time()
        found = sampler.sample(torch.randperm(num_nodes)[:SEEDS])
        out = conv(x[found.nodes], found.edge_index)[: found.num_seeds]
        loss = (out - wanted[found.nodes[: found.num_seeds]]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - begin)
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < sum(losses[:5]), losses  # it learns
    return [
        f"the same graph, training one `SAGEConv` with Binary-GRU of width {WIDTH} on {SEEDS:,} "
        f"nodes a step, up to {FANOUT} neighbours of each drawn by `NeighbourSampler`",
        "",
        f"{statistics.median(seconds):.2f} s a step, peak {peak_bytes() / 2**30:.1f} GiB",
        "",
        "",
        f"1 thread; sorting the edges, once, {preparing:.1f} s; of the peak, "
        f"{before / 2**30:.1f} GiB were there before the first step",
    ]


def pygs_attempt(groups: Groups) -> str:
    """The answers of PyG's aggregation for these groups; its messages take no memory here."""
    padded = groups.num_groups * groups.max_size * WIDTH * 4
    if padded < 1 << 40:  # a smaller one might be granted, and then take all memory there is
        return f"PyG's `LCMAggregation` would pad to {padded / 2**30:.1f} GiB; not tried"
    messages = torch.zeros(1, WIDTH).expand(groups.num_rows, WIDTH)
    try:
        pyg.LCMAggregation(WIDTH, WIDTH)(messages, groups.index, dim_size=groups.num_groups)
    except (RuntimeError, MemoryError) as error:
        found = re.search(r"allocate (\d+) bytes", str(error))
        wanted = f" for {int(found[1]) / 2**40:,.0f} TiB" if found else ""
        return f"PyG's `LCMAggregation` asks{wanted} and fails"
    return "PyG's `LCMAggregation` manages too"


def row_in_a_process(case: str) -> list[str]:
    """Measured in a process that has done nothing else."""
    row: list[str] = json.loads(printed_by("benchmarks.sharded", case))
    return row


def rows() -> list[list[str]]:
    return [row_in_a_process(case) for case in ("graph", "layer", "training", "processes")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["processes", "graph", "layer", "training"])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--budget", type=int, help="bytes; 32 MiB, and for a layer 256 MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.case == "processes":
        row = two_processes()
    elif arguments.case == "training":
        row = training_by_neighbours(arguments.nodes, arguments.edges)
    elif arguments.case == "graph":
        row = large_graph(arguments.nodes, arguments.edges, arguments.budget or 32 << 20)
    else:  # its largest hub is computed at once
        row = large_graph_by_layer(arguments.nodes, arguments.edges, arguments.budget or 256 << 20)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
