"""The same training with treefold's Binary-GRU and with PyG's `LCMAggregation` beside it."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch_geometric.nn import aggr as pyg

from benchmarks.memory import peak_in_a_process
from benchmarks.timing import Ratio
from treefold.aggr import LCMAggregation, RaggedAggregation
from treefold.fold import Groups


class Theirs(RaggedAggregation):
    """PyG's own behind our border: it gets the same sorted messages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels = channels
        self.module = pyg.LCMAggregation(channels, channels, project=False)

    @classmethod
    def like(cls, ours: LCMAggregation) -> "Theirs":
        """With the weights of our Binary-GRU."""
        made = cls(ours.channels)
        made.module.gru_cell.load_state_dict(ours.operator.cell.state_dict())
        return made

    def aggregate(self, x: Any, groups: Groups) -> Tensor:
        rows = x.flatten(0, -2)  # one tower
        found = self.module(rows, groups.index, dim_size=groups.num_groups, dim=0)
        return found.view(groups.num_groups, *x.shape[1:])


MAKERS: dict[str, Callable[[int], Any]] = {"treefold": LCMAggregation, "pyg": Theirs}


def row(
    module: str, name: str, what: str, times: Ratio, epoch: tuple[float, float], note: str,
    reach: float | None, less_memory: bool = False,
) -> list[str]:  # fmt: skip
    """A row of the page; `module` can measure the peak memory of the case `name` with `--peak`.

    `epoch` is PyG's seconds and ours.
    """
    peaks = {which: peak_in_a_process(module, which, name) for which in MAKERS}
    larger = peaks["pyg"] / max(peaks["treefold"], 1)
    met = reach is None or (times.median >= reach and (larger > 1 or not less_memory))
    wanted = "" if reach is None else f"at least {reach:g}x the time"
    return [
        f"PyG `LCMAggregation`, {what}",
        "treefold's Binary-GRU in the same network",
        f"{times}x the time, {larger:.1f}x the peak memory",
        wanted + (", and more memory" if less_memory else ""),
        "" if reach is None else "yes" if met else "**no**",
        f"{epoch[0]:,.0f} s and {peaks['pyg'] / 2**20:,.0f} MiB against {epoch[1]:,.0f} s and "
        f"{peaks['treefold'] / 2**20:,.0f} MiB; {note}, one thread",
    ]
