"""Train a network with a learned monoid, export it to ONNX, and run it without torch."""

import tempfile

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch_geometric.nn import SAGEConv, Sequential

from treefold import aggregator, static_plans


def draw(num_nodes):
    """Four neighbours for each node, and the second smallest of their numbers."""
    x, source = torch.rand(num_nodes, 1), torch.randint(num_nodes, (num_nodes, 4))
    target = torch.arange(num_nodes).repeat_interleave(4)
    return x, torch.stack([source.flatten(), target]), x[source].kthvalue(2, dim=1).values


conv = SAGEConv(8, 8, aggr=aggregator("binary-gru", 8))
steps = [(nn.Linear(1, 8), "x -> x"), (conv, "x, edges -> x"), (nn.Linear(8, 1), "x -> x")]
network = Sequential("x, edges", steps)
optimizer = torch.optim.Adam(network.parameters(), 1e-2)
for _ in range(60):
    x, edges, answers = draw(64)
    loss = (network(x, edges) - answers).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"trained: error {loss:.3f}")

# For any number of nodes and edges, at most 64 of them to a node.
dynamic = {"x": {0: torch.export.Dim.DYNAMIC}, "edges": {1: torch.export.Dim.DYNAMIC}}
given = {"input_names": ["x", "edges"], "dynamic_shapes": dynamic, "dynamo": True}
with static_plans(max_num_elements=64):
    program = torch.onnx.export(network.eval(), draw(10)[:2], verbose=False, **given)
path = f"{tempfile.mkdtemp()}/network.onnx"
program.save(path)

# What a service does: NumPy and ONNX Runtime are all it needs.
session = onnxruntime.InferenceSession(path)
for num_nodes in (5, 50, 200):
    x, edges, _ = draw(num_nodes)
    (served,) = session.run(None, {"x": x.numpy(), "edges": edges.numpy()})
    gap = np.abs(served - network(x, edges).detach().numpy()).max()
    print(f"{num_nodes} nodes: ONNX Runtime and torch differ by {gap:.1e}")
