"""Gates as Triton kernels; their gradients compute the gates again from the projections.

A program does `ROWS` rows of `WIDTH` channels. A row is a pair of states and one of their inner
axes; places and offsets have 64 bits. Launches depend on the number of channels alone: numbers of
rows are neither tuned for nor compiled in.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from treefold.operators.gpu.levels import Level

ELEMENTS = 1024
"""Channels times rows of a program."""
SIZES = ("first", "node", "num_rows", "inner", "slot", "total")


@triton.jit
def _load(at, mask):
    """In float32 at least."""
    x = tl.load(at, mask, 0)
    if x.dtype != tl.float64:
        x = x.to(tl.float32)
    return x


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def _gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def _gelu_slope(x):
    return (
        0.5 * (1 + tl.erf(x * 0.7071067811865476)) + x * tl.exp(-0.5 * x * x) * 0.3989422804014327
    )


@triton.jit
def _tile(num_rows, CHANNELS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows, channels, and which of them are there."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    return row, channel, (row < num_rows) & (channel < CHANNELS)


@triton.jit
def _children(row, children, first, num_rows, inner, NEIGHBOURS: tl.constexpr):
    """The rows of both children among all states."""
    pair = row // inner
    if NEIGHBOURS:
        left = pair * 2 + first
        right = left + 1
    else:
        left = tl.load(children + 2 * pair, row < num_rows, 0)
        right = tl.load(children + 2 * pair + 1, row < num_rows, 0)
    return left * inner + row % inner, right * inner + row % inner


@triton.jit
def _put(at, value, mask, ADD: tl.constexpr):
    if ADD:
        value += tl.load(at, mask, 0).to(value.dtype)
    tl.store(at, value.to(at.dtype.element_ty), mask)


@triton.jit
def _cell(reset, update, new, hidden_new):
    """The gates of one GRU cell, from the sums of its projections."""
    reset = _sigmoid(reset)
    return reset, _sigmoid(update), _tanh(new + reset * hidden_new)


@triton.jit
def _cell_backward(grad, hidden, reset, update, new, hidden_new):
    """Gradients of a cell's sums (reset, update, new) and of what reset multiplies."""
    to_new = grad * (1 - update) * (1 - new * new)
    to_update = grad * (hidden - new) * update * (1 - update)
    to_reset = to_new * hidden_new * reset * (1 - reset)
    return to_reset, to_update, to_new, to_new * reset


@triton.jit(do_not_specialize=SIZES)
def binary_gru(
    projections, states, children, first, node, num_rows, inner,
    CHANNELS: tl.constexpr, NEIGHBOURS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Both cells of each pair, and their mean."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    pa = projections + left * (6 * CHANNELS) + channel
    pb = projections + right * (6 * CHANNELS) + channel
    a = tl.load(states + left * CHANNELS + channel, mask, 0)
    b = tl.load(states + right * CHANNELS + channel, mask, 0)
    _, update, new = _cell(
        _load(pa, mask) + _load(pb + 3 * CHANNELS, mask),
        _load(pa + CHANNELS, mask) + _load(pb + 4 * CHANNELS, mask),
        _load(pa + 2 * CHANNELS, mask),
        _load(pb + 5 * CHANNELS, mask),
    )
    made = new + update * (b - new)
    _, update, new = _cell(
        _load(pb, mask) + _load(pa + 3 * CHANNELS, mask),
        _load(pb + CHANNELS, mask) + _load(pa + 4 * CHANNELS, mask),
        _load(pb + 2 * CHANNELS, mask),
        _load(pa + 5 * CHANNELS, mask),
    )
    made = (made + new + update * (a - new)) * 0.5
    out = (node.to(tl.int64) * inner + row) * CHANNELS + channel
    tl.store(states + out, made, mask)


@triton.jit
def _one_cell_backward(
    grad, px, ph, gx, gh, hidden, mask, CHANNELS: tl.constexpr, ADD: tl.constexpr
):
    """Gradients of one cell's projections; returns what the hidden state gets directly."""
    hidden_new = _load(ph + 5 * CHANNELS, mask)
    reset, update, new = _cell(
        _load(px, mask) + _load(ph + 3 * CHANNELS, mask),
        _load(px + CHANNELS, mask) + _load(ph + 4 * CHANNELS, mask),
        _load(px + 2 * CHANNELS, mask),
        hidden_new,
    )
    to_reset, to_update, to_new, to_hidden_new = _cell_backward(
        grad, hidden, reset, update, new, hidden_new
    )
    _put(gx, to_reset, mask, ADD)
    _put(gx + CHANNELS, to_update, mask, ADD)
    _put(gx + 2 * CHANNELS, to_new, mask, ADD)
    _put(gh + 3 * CHANNELS, to_reset, mask, ADD)
    _put(gh + 4 * CHANNELS, to_update, mask, ADD)
    _put(gh + 5 * CHANNELS, to_hidden_new, mask, ADD)
    return grad * update


@triton.jit(do_not_specialize=SIZES)
def binary_gru_backward(
    projections, states, children, grad_states, grad_projections, first, node, num_rows, inner,
    CHANNELS: tl.constexpr, NEIGHBOURS: tl.constexpr, ADD: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of the children's projections, and of the children where they pass through."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    at_a, at_b = left * CHANNELS + channel, right * CHANNELS + channel
    of_a, of_b = left * (6 * CHANNELS) + channel, right * (6 * CHANNELS) + channel
    grad_at = (node.to(tl.int64) * inner + row) * CHANNELS + channel
    grad = tl.load(grad_states + grad_at, mask, 0) * 0.5
    p, g = projections, grad_projections
    b = tl.load(states + at_b, mask, 0)
    to_b = _one_cell_backward(grad, p + of_a, p + of_b, g + of_a, g + of_b, b, mask, CHANNELS, ADD)
    a = tl.load(states + at_a, mask, 0)
    to_a = _one_cell_backward(grad, p + of_b, p + of_a, g + of_b, g + of_a, a, mask, CHANNELS, ADD)
    _put(grad_states + at_a, to_a, mask, True)
    _put(grad_states + at_b, to_b, mask, True)


@triton.jit(do_not_specialize=SIZES)
def hidden(
    projections, children, out, first, num_rows, inner, slot,
    CHANNELS: tl.constexpr, SELECTS: tl.constexpr, WRITES: tl.constexpr,
    NEIGHBOURS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gated selection's hidden layer: the difference of both orders, and twice their sum."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    pa = projections + left * (2 * CHANNELS) + channel
    pb = projections + right * (2 * CHANNELS) + channel
    ab = _load(pa, mask) + _load(pb + CHANNELS, mask)
    ba = _load(pb, mask) + _load(pa + CHANNELS, mask)
    ab, ba = _gelu(ab), _gelu(ba)
    at = out + row * CHANNELS + channel
    if SELECTS:
        _put(at, ab - ba, mask, False)
        at += slot.to(tl.int64)
    if WRITES:
        _put(at, ab + ba, mask, False)
        _put(at + slot.to(tl.int64), ab + ba, mask, False)


@triton.jit(do_not_specialize=SIZES)
def hidden_backward(
    projections, children, grad, again, grad_projections, first, num_rows, inner, slot, total,
    CHANNELS: tl.constexpr, SELECTS: tl.constexpr, WRITES: tl.constexpr,
    NEIGHBOURS: tl.constexpr, ADD: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Its gradient, and the difference and the sum again, `total` numbers apart."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    of_a, of_b = left * (2 * CHANNELS) + channel, right * (2 * CHANNELS) + channel
    pa, pb = projections + of_a, projections + of_b
    ab = _load(pa, mask) + _load(pb + CHANNELS, mask)
    ba = _load(pb, mask) + _load(pa + CHANNELS, mask)
    at = row * CHANNELS + channel
    of_difference = 0.0
    of_sum = 0.0
    if SELECTS:
        of_difference = _load(grad + at, mask)
        grad += slot.to(tl.int64)
    if WRITES:
        of_sum = _load(grad + at, mask) + _load(grad + slot.to(tl.int64) + at, mask)
    _put(again + at, _gelu(ab) - _gelu(ba), mask, False)
    _put(again + total.to(tl.int64) + at, _gelu(ab) + _gelu(ba), mask, False)
    to_ab = (of_sum + of_difference) * _gelu_slope(ab)
    to_ba = (of_sum - of_difference) * _gelu_slope(ba)
    ga, gb = grad_projections + of_a, grad_projections + of_b
    _put(ga, to_ab, mask, ADD)
    _put(gb + CHANNELS, to_ab, mask, ADD)
    _put(gb, to_ba, mask, ADD)
    _put(ga + CHANNELS, to_ba, mask, ADD)


@triton.jit
def _gate(x, stretch):
    return tl.minimum(tl.maximum((1 + 2 * stretch) * _sigmoid(x) - stretch, 0), 1)


@triton.jit
def _gate_slope(x, stretch):
    gate = _sigmoid(x)
    wide = (1 + 2 * stretch) * gate - stretch
    return tl.where((wide >= 0) & (wide <= 1), (1 + 2 * stretch) * gate * (1 - gate), 0)


@triton.jit
def _lerp(start, end, weight):
    """As `torch.lerp`: exact at both ends."""
    far = end - (end - start) * (1 - weight)
    return tl.where(weight < 0.5, start + weight * (end - start), far)


@triton.jit(do_not_specialize=SIZES)
def blend(
    products, bias, states, children, first, node, num_rows, inner, slot, stretch,
    CHANNELS: tl.constexpr, SELECTS: tl.constexpr, WRITES: tl.constexpr,
    NEIGHBOURS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Choose from both arguments, keep that or write."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    a = tl.load(states + left * CHANNELS + channel, mask, 0)
    b = tl.load(states + right * CHANNELS + channel, mask, 0)
    at = products + row * CHANNELS + channel
    made = (a + b) * 0.5
    if SELECTS:
        made = _lerp(b, a, _gate(_load(at, mask), stretch))
        at += slot.to(tl.int64)
    if WRITES:
        there = channel < CHANNELS
        keep = _load(at, mask) + tl.load(bias + channel, there, 0)
        new = _load(at + slot.to(tl.int64), mask)
        new = _tanh(new + tl.load(bias + CHANNELS + channel, there, 0))
        made = _lerp(new, made, _gate(keep, stretch))
    out = (node.to(tl.int64) * inner + row) * CHANNELS + channel
    tl.store(states + out, made, mask)


@triton.jit(do_not_specialize=SIZES)
def blend_backward(
    products, bias, states, children, grad_states, grad_products, first, node, num_rows, inner,
    slot, stretch,
    CHANNELS: tl.constexpr, SELECTS: tl.constexpr, WRITES: tl.constexpr,
    NEIGHBOURS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of products, and of both arguments where they are copied."""
    row, channel, mask = _tile(num_rows, CHANNELS, ROWS, WIDTH)
    left, right = _children(row, children, first, num_rows, inner, NEIGHBOURS)
    at_a, at_b = left * CHANNELS + channel, right * CHANNELS + channel
    a, b = tl.load(states + at_a, mask, 0), tl.load(states + at_b, mask, 0)
    grad_at = (node.to(tl.int64) * inner + row) * CHANNELS + channel
    grad = tl.load(grad_states + grad_at, mask, 0)
    at = row * CHANNELS + channel
    skip = slot.to(tl.int64)
    chosen = (a + b) * 0.5
    if SELECTS:
        select = _load(products + at, mask)
        chosen = _lerp(b, a, _gate(select, stretch))
    to_chosen = grad
    if WRITES:
        writes = at + skip if SELECTS else at
        there = channel < CHANNELS
        keep = _load(products + writes, mask) + tl.load(bias + channel, there, 0)
        new = _load(products + writes + skip, mask)
        new = _tanh(new + tl.load(bias + CHANNELS + channel, there, 0))
        kept = _gate(keep, stretch)
        to_keep = grad * (chosen - new) * _gate_slope(keep, stretch)
        _put(grad_products + writes, to_keep, mask, False)
        _put(grad_products + writes + skip, grad * (1 - kept) * (1 - new * new), mask, False)
        to_chosen = grad * kept
    to_a = to_chosen * 0.5
    if SELECTS:
        to_select = to_chosen * (a - b) * _gate_slope(select, stretch)
        _put(grad_products + at, to_select, mask, False)
        to_a = to_chosen * _gate(select, stretch)
    _put(grad_states + at_a, to_a, mask, True)
    _put(grad_states + at_b, to_chosen - to_a, mask, True)


def launch(kernel: Any, num_rows: int, channels: int, *arguments: Any, **constants: Any) -> None:
    """Run a kernel over all rows and channels, on the device of its first argument."""
    width = min(triton.next_power_of_2(channels), 128)
    rows = max(1, ELEMENTS // width)
    grid = (triton.cdiv(num_rows, rows), triton.cdiv(channels, width))
    with torch.cuda.device_of(arguments[0]):
        kernel[grid](*arguments, CHANNELS=channels, ROWS=rows, WIDTH=width, **constants)


class TritonBinaryGRU:
    """Binary-GRU's gates, a launch per level."""

    def forward(self, level: Level, projections: Tensor, states: Tensor) -> None:
        """Write the level's nodes into `states`."""
        launch(
            *(binary_gru, level.num_rows, states.shape[-1], projections, states, level.children),
            *(level.first, level.node, level.num_rows, level.inner),
            NEIGHBOURS=level.are_neighbours,
        )

    def backward(
        self, level: Level, projections: Tensor, states: Tensor, grads: Tensor, to: Tensor
    ) -> None:
        """Add to `grads` of states; write (or add) to those of projections."""
        launch(
            *(binary_gru_backward, level.num_rows, states.shape[-1], projections, states),
            *(level.children, grads, to, level.first, level.node, level.num_rows, level.inner),
            NEIGHBOURS=level.are_neighbours,
            ADD=not level.is_tree,
        )


class TritonGatedSelection:
    """Gated selection's hidden layer and its gates, a launch each per level."""

    def __init__(self, selects: bool, writes: bool, stretch: float) -> None:
        self.stretch = stretch
        self._constants = {"SELECTS": selects, "WRITES": writes}

    def hidden(self, level: Level, projections: Tensor, out: Tensor) -> None:
        """Write the factors of the second layer's products, `[products, rows, hidden]`."""
        launch(
            *(hidden, level.num_rows, out.shape[-1], projections, level.children, out),
            *(level.first, level.num_rows, level.inner, out.stride(0)),
            NEIGHBOURS=level.are_neighbours,
            **self._constants,
        )

    def hidden_backward(
        self, level: Level, projections: Tensor, grad: Tensor, again: Tensor, to: Tensor
    ) -> None:
        """Write to `to` the gradients of projections, and difference and sum to `again`."""
        launch(
            *(hidden_backward, level.num_rows, grad.shape[-1], projections, level.children, grad),
            *(again, to, level.first, level.num_rows, level.inner, grad.stride(0)),
            *(again.stride(0),),
            NEIGHBOURS=level.are_neighbours,
            ADD=not level.is_tree,
            **self._constants,
        )

    def blend(self, level: Level, products: Tensor, bias: Tensor | None, states: Tensor) -> None:
        """Write the level's nodes into `states`."""
        launch(
            *(blend, level.num_rows, states.shape[-1], products, bias, states, level.children),
            *(level.first, level.node, level.num_rows, level.inner, products.stride(0)),
            self.stretch,
            NEIGHBOURS=level.are_neighbours,
            **self._constants,
        )

    def blend_backward(
        self, level: Level, products: Tensor, bias: Tensor | None, states: Tensor,
        grads: Tensor, to: Tensor,
    ) -> None:  # fmt: skip
        """Add to `grads` of states, write those of products."""
        launch(
            *(blend_backward, level.num_rows, states.shape[-1], products, bias, states),
            *(level.children, grads, to, level.first, level.node, level.num_rows, level.inner),
            *(products.stride(0), self.stretch),
            NEIGHBOURS=level.are_neighbours,
            **self._constants,
        )
