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


def peak_megabytes() -> float:
    """The most memory this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(num_elements: int, width: int) -> None:
    begun = peak_megabytes()
    torch.manual_seed(0)
    operator, encode = treefold.BinaryGRU(width), nn.Linear(width, width)
    fold = treefold.StreamingFold(operator, num_witnesses=1)
    with torch.no_grad():
        for chunk in chunks(num_elements, width):
            fold.feed(encode(chunk))
    print(f"{int(fold.sizes[0])} elements, {fold.num_states} states, {fold.num_bytes} bytes kept")
    print(f"another merge order (random weights): {fold.spread()}")
    out = treefold.fold_chunks(operator, lambda: chunks(num_elements, width), encode=encode)
    out.square().sum().backward()
    apart = float((out.detach() - fold.value()).abs().max())
    print(f"gradient {float(encode.weight.grad.norm()):.4f}, same answer {apart:.1e} apart")
    more, whole = peak_megabytes() - begun, num_elements * width / 2**18
    print(f"{more:.0f} MB more memory; the elements are {whole:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=10_000_000, dest="num_elements")
    parser.add_argument("--width", type=int, default=32)
    main(**vars(parser.parse_args()))
