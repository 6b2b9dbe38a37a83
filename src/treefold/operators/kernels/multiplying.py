"""The multiplications of a fold, in float32 or with factors in bfloat16.

In bfloat16 weights are packed, and the gradient of a weight is made transposed, see `halves`. The
number of axes of the `room` says which it is, so that only what is used is compiled.
"""

from treefold.operators.kernels import blas, halves
from treefold.operators.kernels.compiling import compiled


@compiled
def project(rows, weight, out, room):
    """Write `rows` [n, c] times `weight` [m, c], transposed, into `out` [n, m]."""
    if room.ndim == 1:
        halves.project(rows, weight, out, room)
    else:
        blas.project(rows, weight, out)


@compiled
def add_to_rows(grad, weight, out, room):
    """Add `grad` [n, m] times `weight` [m, c] to `out` [n, c]."""
    if room.ndim == 1:
        halves.add_to_rows(grad, weight, out, room)
    else:
        blas.add_to_rows(grad, 0, weight, out)


@compiled
def add_to_weight(grad, rows, out, is_blank, room):
    """Add `grad` [n, m], transposed, times `rows` [n, c] to `out` [m, c].

    What is in a blank `out` counts as zero.
    """
    if room.ndim == 1:
        halves.add_to_weight(grad, rows, out, is_blank, room)
    else:
        blas.add_to_weight(grad, 0, rows, out, is_blank)
