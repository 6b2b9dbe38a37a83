"""What a result is learned from: the tensors at the far end of its gradient."""

from collections.abc import Iterable, Iterator

from torch import Tensor


def gradient_leaves(result: Tensor) -> Iterator[Tensor]:
    """The tensors that `result.backward()` would give a gradient to."""
    if result.grad_fn is None:
        if result.requires_grad:
            yield result
        return
    waiting, seen = [result.grad_fn], {result.grad_fn}
    while waiting:
        node = waiting.pop()
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)


def require_covered(result: Tensor, learned: Iterable[Tensor], what: str, advice: str) -> None:
    """Refuse a result whose gradient would also go to others than those that are `learned`."""
    known = {id(tensor) for tensor in learned}
    for leaf in gradient_leaves(result):
        if id(leaf) not in known:
            raise ValueError(
                f"{what} with a tensor of shape {tuple(leaf.shape)} that requires a gradient and "
                f"would get none; {advice}"
            )
