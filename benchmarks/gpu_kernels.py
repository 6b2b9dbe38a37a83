"""Registers and spills of the Triton kernels, compiled ahead of time: no GPU is needed.

python -m benchmarks.gpu_kernels
"""

import subprocess
import tempfile
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from benchmarks.pages import table
from treefold.operators.gpu import triton_gates

ARCHITECTURES = (80, 90)
WIDTHS = (64, 128)
FACTORS = ("projections", "grad_projections", "products", "grad_products", "out", "grad", "again")
"""The type of factors and products."""
STATES = ("states", "grad_states", "bias")
KERNELS: dict[str, Any] = {
    name: getattr(triton_gates, name)
    for name in ("binary_gru", "binary_gru_backward", "hidden", "hidden_backward", "blend",
                 "blend_backward")
}  # fmt: skip


def type_of(argument: str, factors: str) -> str:
    if argument in FACTORS:
        return f"*{factors}"
    if argument in STATES:
        return "*fp32"
    if argument == "children":
        return "*i64"
    return "fp32" if argument == "stretch" else "i32"


def compiled(name: str, architecture: int, width: int, factors: str, neighbours: bool) -> Any:
    """A kernel for one target, with pointers aligned as torch's are."""
    kernel = KERNELS[name]
    rows = triton_gates.ELEMENTS // width
    flags = {"NEIGHBOURS": neighbours, "SELECTS": True, "WRITES": True, "ADD": False}
    constants = {"CHANNELS": width, "ROWS": rows, "WIDTH": width, **flags}
    names = list(signature(kernel.fn).parameters)
    constants = {each: value for each, value in constants.items() if each in names}
    types = {each: "constexpr" if each in constants else type_of(each, factors) for each in names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, each in enumerate(names)
        if types[each].startswith("*")
    }
    source = ASTSource(kernel, types, constants, aligned)
    target = GPUTarget("cuda", architecture, 32)
    return triton.compile(source, target=target, options={"enable_fp_fusion": True})


def resources(made: Any, architecture: int) -> tuple[int, int]:
    """Registers per thread, and bytes spilled to memory and back, by ptxas."""
    target = made.asm["ptx"].split(".target ")[1].split()[0].strip(",")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(made.asm["ptx"])
        ptxas = get_ptxas(architecture).path
        command = [ptxas, "-v", f"--gpu-name={target}", str(source)]
        done = subprocess.run(
            [*command, "-o", f"{folder}/kernel.cubin"], capture_output=True, text=True, check=True
        )
    words = done.stderr.replace(",", " ").split()
    registers = int(words[words.index("registers") - 1])
    places = [place for place, word in enumerate(words) if word == "spill"]
    return registers, sum(int(words[place - 2]) for place in places[:2])


def rows() -> Iterator[list[str]]:
    for name in KERNELS:
        for factors in ("fp32", "bf16"):
            for width in WIDTHS:
                row = [f"`{name}`", factors, str(width)]
                for architecture in ARCHITECTURES:
                    found = [
                        resources(compiled(name, architecture, width, factors, near), architecture)
                        for near in (True, False)
                    ]
                    row.append(" / ".join(str(registers) for registers, _ in found))
                    row.append(str(max(spilled for _, spilled in found)))
                yield row


def main() -> None:
    """Print the table."""
    columns = ["kernel", "factors", "width"]
    for architecture in ARCHITECTURES:
        columns += [f"sm_{architecture}: registers", f"sm_{architecture}: bytes spilled"]
    print("\n".join(table(tuple(columns), list(rows()))))


if __name__ == "__main__":
    main()
