"""Commutative monoids: what they are, the laws they obey, and the ones known in closed form."""

from treefold.algebra.endofunctions import Endofunctions
from treefold.algebra.exact import (
    ExactMonoid,
    LogSumExp,
    Max,
    Min,
    Sum,
    weight_like,
)
from treefold.algebra.histogram import (
    Histogram,
    Mode,
)
from treefold.algebra.homomorphism import (
    Condition,
    Homomorphism,
    Imitation,
    check_imitates,
)
from treefold.algebra.integers import (
    BitwiseOr,
    BitwiseXor,
    Gcd,
)
from treefold.algebra.law_report import (
    LawReport,
    LawRow,
    law_report,
)
from treefold.algebra.laws import (
    ASSOCIATIVITY,
    COMMUTATIVITY,
    FORMAL_IDENTITY,
    IDENTITY,
    MONOID_LAWS,
    SWAP,
    Law,
)
from treefold.algebra.modular import (
    CountModulo,
    Parity,
    Residues,
    SumModulo,
)
from treefold.algebra.monoid import (
    Monoid,
    State,
    describe,
    extremes,
    identity_like,
    map_state,
    require_elements,
    require_monoid,
    require_no_owner,
    stack_size,
    take,
    tensors_of,
)
from treefold.algebra.multisets import (
    Multisets,
    draw_multisets,
)
from treefold.algebra.partial import Partial
from treefold.algebra.product import (
    Product,
)
from treefold.algebra.sampling import (
    draw_elements,
    draw_for,
    draw_integers,
)
from treefold.algebra.selection import (
    KthMinimum,
    TopK,
)
from treefold.algebra.statistics import (
    Mean,
    Variance,
)
from treefold.algebra.violation import (
    Violation,
    compare,
    default_tolerance,
    difference,
)

__all__ = [
    "ASSOCIATIVITY",
    "COMMUTATIVITY",
    "FORMAL_IDENTITY",
    "IDENTITY",
    "MONOID_LAWS",
    "SWAP",
    "BitwiseOr",
    "BitwiseXor",
    "Condition",
    "CountModulo",
    "Endofunctions",
    "ExactMonoid",
    "Gcd",
    "Histogram",
    "Homomorphism",
    "Imitation",
    "KthMinimum",
    "Law",
    "LawReport",
    "LawRow",
    "LogSumExp",
    "Max",
    "Mean",
    "Min",
    "Mode",
    "Monoid",
    "Multisets",
    "Parity",
    "Partial",
    "Product",
    "Residues",
    "State",
    "Sum",
    "SumModulo",
    "TopK",
    "Variance",
    "Violation",
    "check_imitates",
    "compare",
    "default_tolerance",
    "describe",
    "difference",
    "draw_elements",
    "draw_for",
    "draw_integers",
    "draw_multisets",
    "extremes",
    "identity_like",
    "law_report",
    "map_state",
    "require_elements",
    "require_monoid",
    "require_no_owner",
    "stack_size",
    "take",
    "tensors_of",
    "weight_like",
]
