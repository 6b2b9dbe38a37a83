"""A plain training loop on ZINC's molecules, which `treefold data fetch zinc` brings, once."""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, global_add_pool

import treefold
from treefold.lab.tasks import ZINC, GraphBatch


class Network(nn.Module):
    def __init__(self, name: str, width: int = 64) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(28, width), nn.Embedding(4, width)
        self.layers = nn.ModuleList(
            GINEConv(nn.Linear(width, width), aggr=treefold.aggregator(name, width))
            for _ in range(4)
        )
        self.answer = nn.Linear(width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        x, bonds = self.atoms(batch.x[:, 0]), self.bonds(batch.edge_attr[:, 0])
        for layer in self.layers:
            x = x + layer(x, batch.edge_index, bonds).relu()
        return self.answer(global_add_pool(x, batch.groups.index)).squeeze(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder above ZINC, as PyG has it")
    parser.add_argument("--aggregator", default="binary-gru")
    parser.add_argument("--epochs", type=int, default=5)
    arguments, _ = parser.parse_args(), torch.manual_seed(0)
    train, val = (ZINC().split(name, arguments.data) for name in ("train", "val"))
    model, l1_loss = Network(arguments.aggregator), nn.functional.l1_loss
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(1, arguments.epochs + 1):
        for chosen in torch.randperm(len(train)).split(64):
            batch = train.take(chosen)
            optimizer.zero_grad()
            l1_loss(model.train()(batch), batch.y).backward()
            optimizer.step()
        batch = val.take(torch.arange(len(val)))
        with torch.no_grad():
            error = l1_loss(model.eval()(batch), batch.y)
        print(f"epoch {epoch}: mean absolute error {error:.3f} on validation graphs")
