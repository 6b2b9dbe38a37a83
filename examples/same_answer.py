"""The same set, alone and beside a larger one: PyG's LCM changes its answer, ours does not."""

import torch
from torch_geometric.nn import aggr as pyg

import treefold


def largest_change(aggregator: torch.nn.Module, sizes: tuple[int, int], channels: int) -> float:
    """The distance by which the answer for the first set moves when the second joins the batch."""
    mine, theirs = torch.randn(sizes[0], channels), torch.randn(sizes[1], channels)
    alone = aggregator(mine, torch.zeros(sizes[0], dtype=torch.int64))
    index = torch.tensor([0] * sizes[0] + [1] * sizes[1])
    together = aggregator(torch.cat([mine, theirs]), index)
    return float((alone[0] - together[0]).abs().max().detach())


if __name__ == "__main__":
    torch.manual_seed(0)
    theirs = pyg.LCMAggregation(16, 16).eval()
    ours = treefold.LCMAggregation.from_pyg(theirs)  # the same weights
    print("how far a set of 5 moves when a set of 40 joins its batch")
    print(f"  PyG LCMAggregation       {largest_change(theirs, (5, 40), 16):.6f}")
    print(f"  treefold LCMAggregation  {largest_change(ours, (5, 40), 16):.6f}")
