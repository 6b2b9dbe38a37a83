"""A law penalty in one line for a LightningModule: `training_step` gets a decorator."""

import argparse

import pytorch_lightning as lightning
import torch
from penalties_plain import draw
from torch import Tensor, nn

import treefold


class SecondSmallest(lightning.LightningModule):
    def __init__(self, associativity: float, width: int = 16) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(1, width), nn.GELU(), nn.Linear(width, width))
        self.fold = treefold.LCMAggregation(width, associativity=associativity)
        self.decode = nn.Sequential(nn.GELU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.decode(self.fold(self.encode(x), mask=mask))

    @treefold.with_penalties  # the one line
    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], number: int) -> Tensor:
        x, mask, answers = batch
        return nn.functional.l1_loss(self(x, mask), answers)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    for weight in (0.0, 6.0):
        lightning.seed_everything(0, verbose=False)
        model, data = SecondSmallest(weight), torch.utils.data.TensorDataset(*draw(1600))
        trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", **quiet)
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=32, shuffle=True))
        x, mask, answers = draw(500)
        with torch.no_grad():
            error = float((model.eval()(x, mask) - answers).abs().mean())
            states = model.fold(model.encode(x), mask=mask)
        report = treefold.law_report(model.fold.operator, states, [treefold.ASSOCIATIVITY])
        off = report.rows[0].relative[0]
        print(f"weight {weight}: error {error:.4f}, violation of associativity {off:.4f}")
