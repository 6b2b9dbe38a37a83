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


def learn(num_elements: int, width: int) -> tuple[treefold.StreamingFold, Tensor, Tensor, float]:
    """The set as a stream, its fold with gradients, one of them, and the most memory so far."""
    torch.manual_seed(0)
    operator, encode = treefold.BinaryGRU(width), nn.Linear(width, width)
    stream = treefold.StreamingFold(operator, num_witnesses=1)
    with torch.no_grad():
        for chunk in chunks(num_elements, width):
            stream.feed(encode(chunk))
    out = treefold.fold_chunks(operator, lambda: chunks(num_elements, width), encode=encode)
    out.square().sum().backward()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return stream, out.detach(), encode.weight.grad, megabytes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=10_000_000, dest="num_elements")
    parser.add_argument("--width", type=int, default=32)
    num_elements, width = vars(parser.parse_args()).values()
    *_, begun = learn(CHUNK, width)  # loads and compiles what is needed, and holds one chunk
    stream, out, gradient, peak = learn(num_elements, width)
    print(f"{num_elements} elements, {stream.num_states} states, {stream.num_bytes} bytes kept")
    print(f"another merge order (random weights): {stream.stability()}")
    apart = float((out - stream.value()).abs().max())
    print(f"gradient {float(gradient.norm()):.4f}, same answer {apart:.1e} apart")
    more, whole = peak - begun, num_elements * width / 2**18
    print(f"{more:.0f} MB more memory than for one chunk; the elements are {whole:.0f} MB")
