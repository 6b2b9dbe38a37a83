"""treefold: learnable commutative monoids.

Aggregators for graphs and sets whose binary operator is itself learned, folded over a balanced
binary tree.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
