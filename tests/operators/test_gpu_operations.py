"""The work that a device is given, and the inputs of kernels; no GPU is needed for either."""

import pytest
import torch
from trees import BRACKETINGS, normal, seeded

from treefold.fold import plan_tree
from treefold.operators import OPERATORS

pytest.importorskip("triton")

from benchmarks.gpu_kernels import KERNELS, compiled, resources
from benchmarks.gpu_operations import OPERATOR_NAMES, operations
from treefold.operators.gpu import triton_gates


@pytest.mark.parametrize("name", OPERATOR_NAMES)
@pytest.mark.parametrize("bracketing", BRACKETINGS)
@pytest.mark.parametrize("sizes", [[1, 1, 0], [2, 1, 0], [3, 2], [16, 3, 1, 0] * 5, [100]])
def test_operations_are_few_per_level(name, bracketing, sizes):
    operator, plan = OPERATORS[name](8), plan_tree(sizes, bracketing, seeded())
    table = normal(2, 8, dtype=torch.float32)
    repeated = torch.randint(2, (plan.num_rows,), generator=seeded())
    for x, rows in ((normal(plan.num_rows, 8, dtype=torch.float32), None), (table, repeated)):
        forward, backward = operations(operator, x, plan, rows)
        assert len(forward) <= 12 + 4 * plan.depth
        assert len(backward) <= 12 + 6 * plan.depth
        launches = {"binary-gru": 1, "gated-selection": 2}[name] * plan.depth
        assert sum(each in KERNELS for each in forward) == launches
        assert sum(each in KERNELS for each in backward) == launches
        assert not any("_to_copy" in each for each in (*forward, *backward))


@pytest.mark.parametrize("name", OPERATOR_NAMES)
def test_operations_do_not_grow_with_the_number_of_sets(name):
    operator, counts = OPERATORS[name](8), []
    for num_sets in (1, 300):
        plan = plan_tree([16, 3] * num_sets)
        x = normal(plan.num_rows, 8, dtype=torch.float32)
        counts.append([len(each) for each in operations(operator, x, plan)])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_compiled_for_widths_and_not_for_numbers_of_rows(name):
    parameters = {each.name: each for each in KERNELS[name].params}
    sizes = [each for each in triton_gates.SIZES if each in parameters]
    assert {"first", "num_rows", "inner"} <= set(sizes)
    assert all(parameters[each].do_not_specialize for each in sizes)
    constants = {each for each, found in parameters.items() if found.is_constexpr}
    assert constants <= {*("CHANNELS", "ROWS", "WIDTH"), "NEIGHBOURS", "ADD", "SELECTS", "WRITES"}


@pytest.mark.parametrize("name", ["binary_gru", "hidden"])
def test_places_have_64_bits(name):
    text = compiled(name, 80, 16, "fp32", neighbours=False).asm["ttir"]
    wide = [line for line in text.splitlines() if "arith.muli" in line and "xi64>" in line]
    assert len(wide) >= 4  # pairs, inner rows, and offsets of both children


@pytest.mark.parametrize("name", ["binary_gru", "blend_backward"])
def test_kernels_compile_ahead_of_time(name):
    registers, spilled = resources(compiled(name, 80, 64, "fp32", neighbours=True), 80)
    assert 16 < registers <= 255
    assert spilled == 0


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("architecture", [80, 90])
def test_all_kernels_compile_for_both_targets_and_hardly_spill(name, architecture):
    for factors in ("fp32", "bf16"):
        for neighbours in (True, False):
            made = compiled(name, architecture, 128, factors, neighbours)
            registers, spilled = resources(made, architecture)
            assert 16 < registers <= 255
            assert spilled <= 64
