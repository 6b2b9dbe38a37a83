"""Matrix multiplication in bfloat16 for compiled loops: oneDNN's, as torch's library has it.

Factors are rounded to bfloat16; products are added up, and come out, in float32. On CPUs that have
instructions for this it takes half the time of `blas`, whose functions these stand in for.

The right-hand matrix of a product is packed: rows 2i and 2i + 1 are one row of pairs. Both forms
of a weight [m, c] that are needed so, transposed and as it is, take the memory of its float32
numbers. The gradient of a weight is made transposed, and stays so until the end.
"""

import ctypes
import os

import llvmlite.binding
import numpy as np
import torch
from numba import types

from treefold.operators.kernels.compiling import compiled
from treefold.operators.kernels.torch_library import address_in_torch

BLOCK = 64
"""Rows that are rounded at once, and multiplied while they are in cache."""

_product = address_in_torch("_ZN2at6native7cpublas6brgemmEllllllbPKN3c108BFloat16ES5_Pfb")
_release = address_in_torch("_ZN2at6native7cpublas14brgemm_releaseEb")


def can_multiply_halves() -> bool:
    """Whether this can be called here and now: if not, torch would end the process.

    oneDNN that is told to use fewer instructions than there are may lack these.
    """
    has_instructions = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    is_limited = any(f"{library}_MAX_CPU_ISA" in os.environ for library in ("ONEDNN", "DNNL"))
    is_found = _product is not None and _release is not None
    is_on = torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)
    return is_found and is_on and not is_limited and bool(has_instructions())


@ctypes.CFUNCTYPE(None)
def _do_nothing() -> None:
    return None


_nowhere = ctypes.cast(_do_nothing, ctypes.c_void_p).value
llvmlite.binding.add_symbol("treefold_brgemm", _product or _nowhere)
llvmlite.binding.add_symbol("treefold_brgemm_release", _release or _nowhere)

# Three sizes, the distances of three matrices' rows, whether to add to the outcome, three
# addresses, and whether the second matrix is packed.
_brgemm = types.ExternalFunction("treefold_brgemm", types.void(*[types.int64] * 11))
_brgemm_release = types.ExternalFunction("treefold_brgemm_release", types.void(types.int64))

_ROUND, _SIGN_LESS, _INFINITY = np.uint32(0x7FFF), np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_SIXTEEN, _ONE, _NAN = np.uint32(16), np.uint32(1), np.uint32(0x7FC0)


@compiled
def room_per_part(channels, num_projections):
    """How much room a part needs, in pairs of halves."""
    return BLOCK * (1 + num_projections) * channels // 2


@compiled
def _rounded(bits):
    """The bits of the nearest bfloat16, of two the even one; NaN stays NaN."""
    nearest = (bits + _ROUND + ((bits >> _SIXTEEN) & _ONE)) >> _SIXTEEN
    return _NAN if (bits & _SIGN_LESS) > _INFINITY else nearest


@compiled
def _pair(first, second):
    return _rounded(first) | (_rounded(second) << _SIXTEEN)


@compiled
def _bits(array, columns):
    """A matrix of so many columns, as bits."""
    return array.reshape(array.size // columns, columns).view(np.uint32)


@compiled
def _round_all(bits, room):
    """Write a matrix into the room."""
    out = room.view(np.uint16)[: bits.size].reshape(bits.shape)
    for i in range(bits.shape[0]):
        for c in range(bits.shape[1]):
            out[i, c] = _rounded(bits[i, c])


@compiled
def _pack(first, second, out):
    """Write two rows as one of pairs."""
    for c in range(out.size):
        out[c] = _pair(first[c], second[c])


@compiled
def _round_packed(bits, zeros, out):
    """Write `[n, c]` as pairs of rows, `[n / 2, c]`; a row of zeros is the partner of the last."""
    for i in range(out.shape[0]):
        _pack(bits[2 * i], bits[2 * i + 1] if 2 * i + 1 < len(bits) else zeros, out[i])


@compiled
def _round_transposed(bits, zeros, out):
    """Write `[n, c]` as `[c, n / 2]` with two numbers in one; zeros follow the last row."""
    for i in range(out.shape[1]):
        first, second = bits[2 * i], bits[2 * i + 1] if 2 * i + 1 < len(bits) else zeros
        for c in range(out.shape[0]):
            out[c, i] = _pair(first[c], second[c])


@compiled
def _forms(weight):
    """A weight's memory as its two packed forms, in pairs: `[c / 2, m]` and `[m / 2, c]`."""
    m, c = weight.shape
    transposed, as_it_is = weight[: m // 2], weight[m // 2 :]
    return (
        transposed.reshape(c // 2, m).view(np.uint32),
        as_it_is.reshape(m // 2, c).view(np.uint32),
    )


@compiled
def pack_rows(rows, i, weight):
    """Make two rows i and i + 1 of a weight [m, c] part of both its forms; i, m and c are even."""
    transposed, as_it_is = _forms(weight)
    bits = rows.view(np.uint32)
    for k in range(bits.shape[1] // 2):
        transposed[k, i] = _pair(bits[0, 2 * k], bits[0, 2 * k + 1])
        transposed[k, i + 1] = _pair(bits[1, 2 * k], bits[1, 2 * k + 1])
    _pack(bits[0], bits[1], as_it_is[i // 2])


@compiled
def _multiply(num_rows, columns, inner, left, right, out, adds):
    _brgemm(
        *(num_rows, columns, inner, inner, columns, columns, int(adds)),
        *(left.ctypes.data, right.ctypes.data, out.ctypes.data, 1),
    )


@compiled
def _multiply_blocks(rows, inner, packed, columns, out, adds, room):
    """Write `rows` [n, inner] times a packed matrix into `out` [n, columns], or add them."""
    bits, flat = _bits(rows, inner), out.reshape(out.size // columns, columns)
    for start in range(0, len(bits), BLOCK):
        block = bits[start : start + BLOCK]
        _round_all(block, room)
        _multiply(len(block), columns, inner, room, packed, flat[start:], adds)
    _brgemm_release(1)


@compiled
def project(rows, weight, out, room):
    """Write `rows` [n, c] times the packed `weight` [m, c], transposed, into `out` [n, m]."""
    m, c = weight.shape
    _multiply_blocks(rows, c, _forms(weight)[0], m, out, False, room)


@compiled
def add_to_rows(grad, weight, out, room):
    """Add `grad` [n, m] times the packed `weight` [m, c] to `out` [n, c]."""
    m, c = weight.shape
    _multiply_blocks(grad, m, _forms(weight)[1], c, out, True, room)


@compiled
def add_to_weight(grad, rows, out, is_blank, room):
    """Add `rows` [n, c], transposed, times `grad` [n, m] to `out`, whose memory is that of [c, m].

    What is in a blank `out` counts as zero.
    """
    m, c = out.shape
    grads, bits, zeros = _bits(grad, m), _bits(rows, c), np.zeros(max(m, c), np.uint32)
    for start in range(0, len(bits), BLOCK):
        block = bits[start : start + BLOCK]
        pairs = (len(block) + 1) // 2
        left, right = room[: c * pairs], room[c * pairs : (c + m) * pairs]
        _round_transposed(block, zeros, left.reshape(c, pairs))
        _round_packed(grads[start : start + BLOCK], zeros, right.reshape(pairs, m))
        _multiply(c, m, 2 * pairs, left, right, out, not (is_blank and start == 0))
    _brgemm_release(1)
    if is_blank and len(bits) == 0:
        out[:] = 0
