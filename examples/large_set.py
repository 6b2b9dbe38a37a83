"""A set of ten million elements on a laptop: folded, and learned from, one chunk at a time."""

import argparse
import resource
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import treefold

CHUNK = 1 << 15


def chunks(num_elements: int, width: int) -> Iterator[Tensor]:
    """The elements, made or read as they are needed: alike whenever they are asked for."""
    generator = torch.Generator().manual_seed(0)
    for start in range(0, num_elements, CHUNK):
        yield torch.randn(min(CHUNK, num_elements - start), width, generator=generator)


def main(num_elements: int, width: int) -> None:
    torch.manual_seed(0)
    operator, encode = treefold.BinaryGRU(width), nn.Linear(width, width)

    fold = treefold.StreamingFold(operator, num_witnesses=1)
    with torch.no_grad():
        for chunk in chunks(num_elements, width):
            fold.feed(encode(chunk))
    print(f"{int(fold.sizes[0])} elements, {fold.num_states} states, {fold.num_bytes} bytes kept")
    print(f"another merge order: {fold.spread()}")

    out = treefold.fold_chunks(operator, lambda: chunks(num_elements, width), encode=encode)
    out.square().sum().backward()
    print(f"gradient of the encoder {float(encode.weight.grad.norm()):.4f}")
    print(f"same answer {float((out - fold.value()).abs().max()):.1e} apart")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"peak memory {peak:.0f} MB; the elements alone {num_elements * width * 4 / 2**20:.1f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--width", type=int, default=32)
    arguments = parser.parse_args()
    main(arguments.elements, arguments.width)
