"""Binary-MLP: a residual perceptron of two arguments, commutative by construction."""

from torch import Tensor, nn
from torch.nn import functional as F

from treefold.operators.operator import Operator
from treefold.shapes import Float


class BinaryMLP(Operator):
    """The operator a ⊕ b = ½ (a + b) + ½ (f(a, b) + f(b, a)), f a perceptron with one hidden layer.

    Cheaper than Binary-GRU and without gates. The identity is learned.
    """

    def __init__(self, channels: int, hidden_channels: int | None = None) -> None:
        super().__init__(channels)
        hidden_channels = 2 * channels if hidden_channels is None else hidden_channels
        self.inner = nn.Linear(channels, 2 * hidden_channels)
        self.outer = nn.Linear(hidden_channels, channels)
        self.identity = self.learned_identity()

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        # `inner` holds f's weights for its first and for its second argument, side by side.
        a_first, a_second = self.inner(a).chunk(2, -1)
        b_first, b_second = self.inner(b).chunk(2, -1)
        hidden = F.gelu(a_first + b_second) + F.gelu(b_first + a_second)
        residual: Tensor = self.outer(hidden / 2)
        return (a + b) / 2 + residual
