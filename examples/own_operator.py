"""Write an operator, use it in an aggregator, and ask how well it obeys the laws."""

import torch
from torch import Tensor, nn

import treefold


class GatedSum(treefold.Operator):
    """The operator a ⊕ b = g a + g b, with one gate g that looks at both."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.gate = nn.Linear(channels, channels)
        self.identity = self.learned_identity()

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(a + b)) * (a + b)


if __name__ == "__main__":
    torch.manual_seed(0)
    operator = GatedSum(channels=8)
    aggregator = treefold.LCMAggregation(8, operator)
    sets = aggregator(torch.randn(100, 8), torch.randint(0, 7, (100,)))
    print(f"{tuple(sets.shape)} from 100 rows in 7 sets")
    print(treefold.law_report(operator, sets.detach()))
