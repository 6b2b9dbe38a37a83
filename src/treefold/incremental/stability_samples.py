"""The spread of what can be done again: a source read once more, a graph gone over again."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from treefold.algebra import Monoid, State
from treefold.incremental.chunked import Chunk
from treefold.incremental.stability import BracketingSpread, distances, require_bracketings
from treefold.incremental.streaming import StreamingFold
from treefold.shapes import Int


@torch.no_grad()
def chunks_spread(
    op: Monoid,
    chunks: Callable[[], Iterable[Tensor | Chunk]],
    num_sets: int = 1,
    encode: Callable[[Tensor], Tensor] | None = None,
    num_bracketings: int = 4,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingSpread:
    """How far other merge orders move the answer of `fold_chunks`, which has the same arguments.

    Reads the source once and folds it `num_bracketings` + 1 times on the way, as a `StreamingFold`
    with witnesses, in the memory of one chunk.
    """
    require_bracketings(num_bracketings)
    fold = StreamingFold(op, num_sets, num_witnesses=num_bracketings, generator=generator)
    for chunk in chunks():
        some = chunk if isinstance(chunk, Chunk) else Chunk(chunk)
        fold.feed(some.rows if encode is None else encode(some.rows), some.sets)
    return fold.spread(decode)


@torch.no_grad()
def graph_spread(
    infer: Callable[[Tensor], Tensor],
    edge_index: Int[Tensor, " 2 edges"],
    num_bracketings: int = 4,
    generator: torch.Generator | None = None,
) -> BracketingSpread:
    """How far the outputs `infer(edge_index)` move, node by node, if edges come in other orders.

    All layers together, in the units of the last one: what moves in the first is carried on. For
    `infer_layerwise`, give `lambda edges: infer_layerwise(layers, x, edges, budget_bytes)`. It is
    called `num_bracketings` + 1 times. Trees keep the shapes that the layers give them, and other
    neighbours meet in them; which ones in a real run, the order of `edge_index` decides.
    """
    require_bracketings(num_bracketings)
    device = edge_index.device if generator is None else generator.device
    answer, others = infer(edge_index), []
    for _ in range(num_bracketings):
        order = torch.randperm(edge_index.shape[1], generator=generator, device=device)
        others.append(infer(edge_index[:, order.to(edge_index.device)]))
    return distances(answer, list(others))
