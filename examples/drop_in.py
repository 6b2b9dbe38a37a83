"""Swap `aggr=` in a PyTorch Geometric layer, and learn something a sum cannot generalise.

Every node holds a number in [0, 1]; its label is the second smallest number among its neighbours.
We train one SAGE layer per aggregator on small random graphs and test it on denser ones.
"""

import argparse

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import treefold

NAMES = ("sum", "max", "pna", "binary-gru")


class Network(nn.Module):
    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(1, width), nn.GELU(), nn.Linear(width, width))
        aggregator = treefold.aggregator(name, width)
        self.conv = SAGEConv(
            (aggregator.out_channels, width), width, aggr=aggregator, root_weight=False
        )
        self.decode = nn.Sequential(nn.GELU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.encode(x)
        return self.decode(self.conv((hidden, hidden), edge_index)).squeeze(-1)


def random_graph(num_nodes: int, degrees: range, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers, edges, and each node's second smallest neighbour."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(num_nodes, 1, generator=generator)
    degree = torch.randint(degrees.start, degrees.stop, (num_nodes,), generator=generator)
    target = torch.arange(num_nodes).repeat_interleave(degree)
    source = torch.randint(0, num_nodes, (len(target),), generator=generator)
    second = treefold.MonoidAggregation(treefold.algebra.KthMinimum(2))
    return x, torch.stack([source, target]), second(x[source], target, dim_size=num_nodes)[:, 0]


def train(name: str, steps: int, width: int) -> tuple[float, float]:
    """The mean absolute error on graphs like those seen, and on denser ones."""
    torch.manual_seed(0)
    model = Network(name, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        x, edge_index, label = random_graph(128, range(2, 9), seed=step)
        loss = nn.functional.l1_loss(model(x, edge_index), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return error(model, range(2, 9)), error(model, range(24, 33))


@torch.no_grad()
def error(model: Network, degrees: range) -> float:
    x, edge_index, label = random_graph(2000, degrees, seed=-1)
    return float((model(x, edge_index) - label).abs().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--width", type=int, default=32)
    arguments = parser.parse_args()
    print("second smallest neighbour, mean absolute error")
    print(f"{'aggregator':>12}  2..8 neighbours  24..32 neighbours")
    for name in NAMES:
        seen, denser = train(name, arguments.steps, arguments.width)
        print(f"{name:>12}  {seen:15.4f}  {denser:17.4f}", flush=True)
