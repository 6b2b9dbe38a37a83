"""Train a network with a learned monoid, export it to ONNX, and run it without torch.

    pip install onnx onnxscript onnxruntime
    python examples/export_onnx.py

The second half needs NumPy and ONNX Runtime only.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

import treefold

CHANNELS = 8


class Network(nn.Module):
    """One number for each node: here, the second smallest among its neighbours' numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, CHANNELS)
        self.conv = SAGEConv(CHANNELS, CHANNELS, aggr=treefold.aggregator("binary-gru", CHANNELS))
        self.read = nn.Linear(CHANNELS, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.read(self.conv(self.embed(x).relu(), edge_index).relu())


def draw(num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """A random graph of 4 neighbours per node, and the answers."""
    x = torch.rand(num_nodes, 1)
    source = torch.randint(num_nodes, (num_nodes, 4))
    target = torch.arange(num_nodes).repeat_interleave(4)
    answers = x[source].squeeze(-1).kthvalue(2, dim=1).values.unsqueeze(1)
    return x, torch.stack([source.flatten(), target]), answers


def train(steps: int = 60) -> Network:
    """A few steps, as with any network."""
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(steps):
        x, edge_index, answers = draw(64)
        loss = (network(x, edge_index) - answers).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


def export(network: Network, path: Path) -> None:
    """Write the network for any number of nodes and edges, with at most 256 edges to a node."""
    x, edge_index, _ = draw(10)
    dynamic = torch.export.Dim.DYNAMIC
    with treefold.static_plans(max_num_elements=256):
        program = torch.onnx.export(
            network,
            (x, edge_index),
            input_names=["x", "edge_index"],
            output_names=["answers"],
            dynamic_shapes=({0: dynamic}, {1: dynamic}),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.save(str(path))


def serve(path: Path, x: np.ndarray, edge_index: np.ndarray) -> np.ndarray:
    """What a service does: no torch, no treefold."""
    session = onnxruntime.InferenceSession(path)
    (answers,) = session.run(None, {"x": x, "edge_index": edge_index})
    return answers


def main() -> None:
    network = train()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        export(network, path)
        for num_nodes in (3, 50, 200):
            x, edge_index, _ = draw(num_nodes)
            served = serve(path, x.numpy(), edge_index.numpy())
            with torch.no_grad():
                expected = network(x, edge_index).numpy()
            gap = float(np.abs(served - expected).max())
            print(f"{num_nodes} nodes: ONNX Runtime and torch differ by {gap:.1e}")
            assert gap < 1e-4


if __name__ == "__main__":
    main()
