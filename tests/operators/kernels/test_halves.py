"""Multiplications in bfloat16 for compiled loops, beside those of rounded numbers in numpy."""

import numpy as np
import pytest
import torch

pytest.importorskip("numba")
from treefold.operators.kernels import halves

multiplies = pytest.mark.skipif(
    not halves.can_multiply_halves(), reason="this CPU has no instructions for bfloat16"
)

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def rounded(x):
    return torch.from_numpy(x).bfloat16().double().numpy()


def packed(weight):
    made = np.full_like(weight, np.nan)
    for i in range(0, len(weight), 2):
        halves.pack_rows(weight[i : i + 2], i, made)
    return made


def room_for(weight):
    m, c = weight.shape
    return np.full(halves.room_per_part(c, m // c), 0xFFFFFFFF, np.uint32)  # all NaN


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def bits_of(x):
    return torch.from_numpy(x).bfloat16().view(torch.uint16).numpy()


@pytest.mark.parametrize("channels", [2, 6, 16])
def test_a_weight_is_packed_in_pairs_of_rows_both_ways(channels):
    weight = normal(6 * channels, channels)
    found = packed(weight).reshape(-1).view(np.uint16).reshape(2, -1)
    for form, matrix in zip(found, (weight.T, weight), strict=True):
        bits = bits_of(np.ascontiguousarray(matrix))
        pairs = np.stack([bits[::2], bits[1::2]], -1)
        np.testing.assert_array_equal(form.reshape(pairs.shape), pairs)


@multiplies
@pytest.mark.parametrize("num_rows", [0, 1, 7, 64, 131])
@pytest.mark.parametrize(("inner", "channels"), [(1, 2), (3, 6), (1, 16)])
def test_they_multiply_rounded_numbers_as_numpy_does(num_rows, inner, channels):
    m = 6 * channels
    rows, weight = normal(num_rows, inner, channels), normal(m, channels)
    grad = normal(num_rows, inner, m)
    ready, room = packed(weight), room_for(weight)
    out = np.full_like(grad, np.nan)
    halves.project(rows, ready, out, room)
    close(out, rounded(rows) @ rounded(weight).T)

    to_rows = np.ones_like(rows)  # what is there stays
    halves.add_to_rows(grad, ready, to_rows, room)
    close(to_rows, 1 + rounded(grad) @ rounded(weight))

    expected = np.einsum("nim,nic->cm", rounded(grad), rounded(rows))
    to_weight = np.full_like(weight, np.nan)
    halves.add_to_weight(grad, rows, to_weight, True, room)
    close(to_weight.reshape(channels, m), expected)
    halves.add_to_weight(grad, rows, to_weight, False, room)
    close(to_weight.reshape(channels, m), 2 * expected)


def test_numbers_are_rounded_as_torch_rounds_them():
    bits = RANDOM.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    x = np.concatenate([bits, ties]).view(np.float32)
    weight = x[np.isfinite(x)][:39_000].reshape(-1, 2)
    form = packed(weight).reshape(-1).view(np.uint16)[weight.size :].reshape(-1, 2, 2)
    np.testing.assert_array_equal(form.transpose(0, 2, 1).reshape(weight.shape), bits_of(weight))


@multiplies
def test_rounded_numbers_are_what_is_multiplied():
    bits = RANDOM.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    x = bits.view(np.float32)
    x = x[np.isfinite(x) & (np.abs(x) < 1e38)]
    rows = np.stack([x, np.zeros_like(x)], 1)[:, None]
    weight = np.zeros((12, 2), np.float32)
    weight[5, 0] = 1
    out = np.full((len(x), 1, 12), np.nan, np.float32)
    halves.project(rows, packed(weight), out, room_for(weight))
    expected = torch.from_numpy(x).bfloat16().float().numpy()
    is_normal = np.abs(expected) >= np.finfo(np.float32).tiny  # the CPU makes others zero
    np.testing.assert_array_equal(out[is_normal, 0, 5], expected[is_normal])


@multiplies
@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001])
def test_what_is_not_a_number_stays_so(bits):
    rows = np.array([bits, 0], np.uint32).view(np.float32).reshape(1, 1, 2)
    out = np.zeros((1, 1, 12), np.float32)
    weight = np.ones((12, 2), np.float32)
    halves.project(rows, packed(weight), out, room_for(weight))
    assert np.isnan(out).all()


@pytest.fixture
def _instructions(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(halves, "_product", 1)
    monkeypatch.setattr(halves, "_release", 1)
    assert halves.can_multiply_halves()


@pytest.mark.usefixtures("_instructions")
@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (torch.cpu, "_is_avx512_bf16_supported", lambda: False),
        (torch.backends.mkldnn, "is_available", lambda: False),
        (torch.backends.mkldnn, "enabled", False),
        (halves, "_product", None),
        (halves, "_release", None),
    ],
)
def test_they_are_not_called_where_something_is_missing(where, name, value, monkeypatch):
    monkeypatch.setattr(where, name, value)
    assert not halves.can_multiply_halves()


@pytest.mark.usefixtures("_instructions")
@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_they_are_not_called_where_onednn_must_do_without_instructions(name, monkeypatch):
    monkeypatch.setenv(name, "AVX2")
    assert not halves.can_multiply_halves()
