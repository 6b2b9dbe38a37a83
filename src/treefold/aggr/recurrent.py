"""The recurrent aggregator: a learned cell run along each group, O(n) deep."""

from typing import cast

import torch
from torch import Tensor, nn

from treefold.aggr.base import (
    RaggedAggregation,
    checked_channels,
    checked_flag,
    require_channels,
    require_type,
)
from treefold.aggr.penalties import LawWeights
from treefold.aggr.recurrent_op import OpaqueChain, run_opaque
from treefold.aggr.sampling import Reduction, Sampling
from treefold.aggr.static import StaticGroups
from treefold.aggr.swap_loss import swap_loss
from treefold.algebra import State
from treefold.fold import (
    Groups,
    PackedOrder,
    Rows,
    chain_fold,
    take_rows,
)
from treefold.names import by_name
from treefold.operators import CELLS, RecurrentCell


class RecurrentAggregation(RaggedAggregation):
    """Runs a recurrent cell along each group, from a learned initial state, to its true last one.

    - `cell`: `"gru"`, `"lstm"`, or a `RecurrentCell`. Empty groups give the initial state's output.
    - `swap`: the weight of the swap loss `|f(f(s, x), y) - f(f(s, y), x)|²`, which pulls the cell
      towards not minding the order; `law_nodes` is at how many places to take it (all if None).
    - `shuffle`: put each group in random order in training, as in the paper.
    - `permutations`: average over this many orders of each group (Janossy pooling). In evaluation
      they depend on places within a group alone, and answers repeat.
    """

    def __init__(
        self,
        channels: int,
        cell: str | RecurrentCell = "gru",
        *,
        swap: float = 0.0,
        law_nodes: int | None = None,
        law_reduction: Reduction = "sum",
        shuffle: bool = True,
        permutations: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(permutations, int) or permutations < 1:
            raise ValueError(f"{permutations!r} permutations; expected 1 or more")
        self.channels = self.in_channels = self.out_channels = checked_channels(channels)
        self.cell = by_name(CELLS, cell, "cell")(channels) if isinstance(cell, str) else cell
        if self.cell.channels != channels:
            raise ValueError(f"the cell has {self.cell.channels} channels; expected {channels}")
        self.laws = LawWeights({"swap": swap})
        self.sampling = Sampling(law_nodes, law_reduction)
        self.shuffle = checked_flag("shuffle", shuffle)
        self.permutations = permutations
        self.generator = generator

    def reset_parameters(self) -> None:
        """Reset all parameters."""
        self.cell.reset_parameters()

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """The output of each group's last state, averaged over its orders."""
        outputs = [self._run(x, self._ordered(groups, k)) for k in range(self.permutations)]
        return torch.stack(outputs).mean(0) if len(outputs) > 1 else outputs[0]

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same as one operation that torch.compile and torch.export do not look into."""
        require_channels(x, self.channels)
        if self.training and self.generator is not None:
            raise ValueError(
                "there is a generator, and torch.compile cannot use one; leave it out and call "
                "torch.manual_seed"
            )
        if self.training and self.shuffle and self.permutations == 1:
            groups = groups.shuffled()
            x = cast(Tensor, groups.ordered(x))
        penalties = self.laws.recorder() if self.training else None
        how = OpaqueChain(
            permutations=self.permutations,
            shuffle=self.training and self.shuffle and self.permutations > 1,
            swaps=penalties is not None,
            num_nodes=self.sampling.num_nodes or 0,
            reduction=self.sampling.reduction,
        )
        out, loss = run_opaque(self.cell, x, groups, how)
        if penalties is not None:
            penalties.add("swap", loss, self.laws.active["swap"])
        return out

    def _ordered(self, groups: Groups, number: int) -> Groups:
        if self.training and self.shuffle:
            return groups.shuffled(self.generator)
        return groups.rearranged(number)

    def _run(self, x: Rows, groups: Groups) -> Tensor:
        require_channels(x, self.channels)
        require_type(x, self.cell)
        penalties = self.laws.recorder() if self.training else None
        keep_states = penalties is not None
        chain = chain_fold(self.cell, x, groups, self.cell.initial, keep_states)
        if penalties is not None:
            packed = PackedOrder.of(groups)
            rows = cast(Tensor, take_rows(x, packed.rows, groups.has_every_row))
            loss = swap_loss(
                self.cell, rows, cast(State, chain.states), packed, self.sampling, self.generator
            )
            penalties.add("swap", loss, self.laws.active["swap"])
        return self.cell.output(chain.groups)

    def extra_repr(self) -> str:
        """The options that are not the default, for `print(aggregator)`."""
        orders = f"permutations={self.permutations}" if self.permutations > 1 else ""
        return ", ".join(part for part in (str(self.channels), str(self.laws), orders) if part)

    def __repr__(self) -> str:
        return nn.Module.__repr__(self)
