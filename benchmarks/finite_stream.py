"""`python -m benchmarks.finite_stream FOLDER`: a billion elements through a certified monoid.

FOLDER is one that `treefold certify RUN --monoid FOLDER` has written, for the 2nd minimum. Ten
million keys get a hundred integers each. Their second smallest is known, since it is drawn first,
evenly, and every other integer from those that leave it so. Keys come in random order.
"""

import argparse
import time

import torch
from torch import Tensor

from benchmarks.memory import peak_bytes
from treefold.finite import FiniteMonoid

CHUNK = 1 << 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("monoid")
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--elements", type=int, default=1_000_000_000)
    given = parser.parse_args()
    before, begin = peak_bytes(), time.perf_counter()
    monoid, generator = FiniteMonoid.from_pretrained(given.monoid), torch.Generator().manual_seed(0)
    top = len(monoid.values)
    states = torch.zeros(given.keys, dtype=torch.int32)
    answers = torch.randint(0, top, (given.keys,), generator=generator, dtype=torch.int16)

    def below(most: Tensor) -> Tensor:
        return (torch.rand(len(most), generator=generator) * most).long()

    for start in range(0, given.keys, CHUNK):
        keys = torch.arange(start, min(start + CHUNK, given.keys))
        least = answers[keys].long()
        monoid.feed(states, keys, below(least + 1))  # at most the answer
        monoid.feed(states, keys, least)  # the answer itself
    for start in range(2 * given.keys, given.elements, CHUNK):
        count = min(CHUNK, given.elements - start)
        keys = torch.randint(0, given.keys, (count,), generator=generator)
        least = answers[keys].long()
        monoid.feed(states, keys, least + below(top - least))  # at least the answer
    parts = zip(states.split(CHUNK), answers.split(CHUNK), strict=True)
    wrong = sum(int((monoid.decode(part) != right).sum()) for part, right in parts)
    seconds, peak = time.perf_counter() - begin, (peak_bytes() - before) / 1e6
    print(
        f"{given.elements} elements, {given.keys} keys, {len(monoid)} states: {wrong} wrong, "
        f"{seconds:.0f} s, {peak:.0f} MB above the imports"
    )


if __name__ == "__main__":
    main()
