"""Sums of independent counters over whole groups at once, without a tree.

Counters commute and associate exactly, so a group's state depends on how often each row occurs in
it alone. Distributions are multiplied as power series, cut off at their end, or as Fourier series;
whole counts are added. Both are sums over the rows of a group.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from treefold.fold import TableRows, take_rows

LEAST_FIRST = 1e-4
"""Series are divided by the share of counting nothing, which must not be smaller than this."""

Sum = Callable[[Tensor], Tensor]
"""From a number for each row of a table to its sum over each group: `[rows, *]` to `[groups, *]`"""


def sum_over(rows: TableRows, sizes: Tensor) -> Sum:
    """The sums over consecutive groups; as one product where rows of the table repeat often."""
    num_groups, distinct = len(sizes), len(rows.table)
    owner = torch.arange(num_groups, device=sizes.device).repeat_interleave(sizes)
    if num_groups * distinct > 64 * len(rows):

        def add(features: Tensor) -> Tensor:
            blank = features.new_zeros(num_groups, *features.shape[1:])
            taken = take_rows(features, rows.rows, rows.is_permutation)
            return blank.index_add(0, owner, cast(Tensor, taken))

        return add
    ones = torch.ones(len(rows), dtype=torch.int64, device=sizes.device)
    counts = torch.zeros(num_groups * distinct, dtype=torch.int64, device=sizes.device)
    counts = counts.index_add(0, owner * distinct + rows.rows, ones).view(num_groups, distinct)

    def multiply(features: Tensor) -> Tensor:
        product = counts.to(features.dtype) @ features.flatten(1)
        return product.view(num_groups, *features.shape[1:])

    return multiply


def sums_to_an_end(shares: list[Tensor], total: Sum) -> list[Tensor]:
    """The distributions of sums of counters (tail, 1), from those of rows, `[rows, counters]`."""
    given = shares[0].dtype
    if len(shares) > 3:  # logarithms of longer series cancel
        shares = [share.double() for share in shares]
    first = shares[0]
    ratios = [share / first for share in shares[1:-1]]
    # Coefficients of log(1 + r1 z + r2 z² + ...), times their power; then back.
    logs = list[Tensor]()
    for k, ratio in enumerate(ratios, 1):
        log = k * ratio
        for j in range(1, k):
            log = log - logs[j - 1] * ratios[k - j - 1]
        logs.append(log)
    sums = [total(log) for log in logs]
    none = total(first.log()).exp()
    series = [torch.ones_like(none)]
    for k in range(1, len(sums) + 1):
        terms = [sums[j - 1] * series[k - j] for j in range(1, k + 1)]
        series.append(torch.stack(terms).sum(0) / k)
    made = [none * term.masked_fill(none == 0, 0) for term in series]
    return [share.to(given) for share in (*made, 1 - torch.stack(made).sum(0))]


def sums_around(shares: list[Tensor], total: Sum) -> list[Tensor]:
    """The same for counters (0, period), through their Fourier transform."""
    period, p = len(shares), torch.stack(shares)
    waves = torch.arange(1, period // 2 + 1, dtype=p.dtype, device=p.device)
    places = torch.arange(period, dtype=p.dtype, device=p.device)
    angles = 2 * math.pi / period * torch.outer(waves, places)
    real = torch.einsum("kj,jrc->rkc", angles.cos(), p)
    imaginary = torch.einsum("kj,jrc->rkc", angles.sin(), p)
    size = total((real.square() + imaginary.square()).clamp(min=1e-12).log() / 2).exp()
    turn = total(torch.atan2(imaginary, real + 1e-12 * (real == 0)))
    # The wave of the highest even frequency is its own mirror image.
    twice = torch.where(2 * waves == period, 1.0, 2.0).to(p.dtype)[:, None]
    real = torch.einsum("kj,gkc->jgc", twice * angles.cos(), size * turn.cos())
    imaginary = torch.einsum("kj,gkc->jgc", twice * angles.sin(), size * turn.sin())
    return list((1 + real + imaginary) / period)
