"""The benchmark's other convolutions, from PyG: GCN, GAT and GIN, begun as PNA begins them."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, GINConv

from treefold.lab.networks.dense import mlp, pna_init_
from treefold.lab.networks.graph_layout import Neighbours
from treefold.shapes import Float

HEADS = 4
GAT_GAIN = 0.1414


class GCN(nn.Module):
    """GCN's symmetrically normalised sum over neighbours and the node itself, and LeakyReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, out_channels, normalize=False)
        for parameter in self.conv.parameters():
            nn.init.uniform_(parameter, -(out_channels**-0.5), out_channels**-0.5)

    def forward(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours
    ) -> Float[Tensor, " n outputs"]:
        """The new states of all nodes; the weights of edges are computed once per batch."""
        return F.leaky_relu(self.conv(x, *neighbours.normalized))


class GAT(nn.Module):
    """Attention over neighbours in four heads, without self-loops, and ELU.

    PNA's released code normalises over receivers and scores other pairs than it should; this is
    the published attention, so a departure from the code of the published row.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        if out_channels % HEADS:
            raise ValueError(f"{HEADS} heads cannot split {out_channels} channels; use a multiple")
        width = out_channels // HEADS
        self.conv = GATConv(in_channels, width, heads=HEADS, add_self_loops=False, bias=False)
        # Xavier-uniform for each head: its matrix, and its scores, a map of a pair to one number.
        for parameter, fans in (
            (self.conv.lin.weight, in_channels + width),
            (self.conv.att_src, 2 * width + 1),
            (self.conv.att_dst, 2 * width + 1),
        ):
            bound = GAT_GAIN * (6 / fans) ** 0.5
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours
    ) -> Float[Tensor, " n outputs"]:
        """The new states of all nodes; zero for those without neighbours."""
        return F.elu(self.conv(x, neighbours.edge_index))


class GIN(nn.Module):
    """The sum over neighbours and 1 + ε times the node itself, through an MLP; ε is learned."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        hidden = max(in_channels, out_channels)
        layers = mlp([in_channels, hidden, out_channels], nn.ReLU, nn.ReLU, batch_norm=True)
        self.conv = GINConv(layers, eps=0.1, train_eps=True)
        for module in layers.modules():  # PyG has initialized them again
            if isinstance(module, nn.Linear):
                pna_init_(module.weight.T, module.bias)

    def forward(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours
    ) -> Float[Tensor, " n outputs"]:
        """The new states of all nodes."""
        states: Tensor = self.conv(x, neighbours.edge_index)
        return states


CONVOLUTIONS: dict[str, Callable[[int, int], nn.Module]] = {"gcn": GCN, "gat": GAT, "gin": GIN}
"""By name: `CONVOLUTIONS[name](in_channels, out_channels)`."""
