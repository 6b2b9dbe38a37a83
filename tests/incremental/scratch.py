"""The expected value of a fold tree: its rows, folded from scratch."""

from treefold.algebra import State
from treefold.fold import plan_tree, tree_reduce
from treefold.incremental import FoldTree


def from_scratch(tree: FoldTree) -> State:
    """Over the carry tree, which is the one that a `FoldTree` holds."""
    return tree_reduce(tree.op, tree.rows(), plan_tree(tree.sizes, "carry"))
