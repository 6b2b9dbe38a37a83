"""A law penalty in one line for a plain loop: the function that gives the loss gets a decorator."""

import argparse

import torch
from torch import Tensor, nn

import treefold


def draw(num_sets: int) -> tuple[Tensor, Tensor, Tensor]:
    """Padded sets of 2 to 12 numbers, where they have elements, and their second smallest."""
    x, sizes = torch.rand(num_sets, 12, 1), torch.randint(2, 13, (num_sets, 1))
    mask = torch.arange(12) < sizes
    return x, mask, treefold.reduce_sets(treefold.algebra.KthMinimum(2), x, mask=mask)


def train(associativity: float, steps: int, width: int = 16) -> tuple[float, float]:
    torch.manual_seed(0)
    encode = nn.Sequential(nn.Linear(1, width), nn.GELU(), nn.Linear(width, width))
    fold = treefold.LCMAggregation(width, associativity=associativity, law_reduction="mean")
    decode = nn.Sequential(nn.GELU(), nn.Linear(width, 1))
    parameters = nn.ModuleList([encode, fold, decode]).parameters()
    optimizer = torch.optim.Adam(parameters, lr=3e-3)

    @treefold.with_penalties  # the one line
    def loss_of(x: Tensor, mask: Tensor, answers: Tensor) -> Tensor:
        return nn.functional.l1_loss(decode(fold(encode(x), mask=mask)), answers)

    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(*draw(32)).backward()
        optimizer.step()
    x, mask, answers = draw(500)
    with torch.no_grad():
        states = fold.eval()(encode(x), mask=mask)
        error = float((decode(states) - answers).abs().mean())
    report = treefold.law_report(fold.operator, states, laws=[treefold.ASSOCIATIVITY])
    return error, report.rows[0].relative[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    for weight in (0.0, 100.0):
        error, off = train(weight, parser.parse_args().steps)
        print(f"weight {weight}: error {error:.4f}, violation of associativity {off:.4f}")
