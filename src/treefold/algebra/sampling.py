"""Random elements, drawn with replacement from a stack of samples."""

import torch
from torch import Tensor

from treefold.algebra.laws import Law
from treefold.algebra.monoid import State, stack_size, take, tensors_of


def draw_elements(
    samples: State, num_stacks: int, num_draws: int, generator: torch.Generator | None = None
) -> list[State]:
    """`num_stacks` independent stacks of `num_draws` elements of `samples` each."""
    num_samples = stack_size(samples)
    if num_samples == 0:
        raise ValueError("there are no samples to draw from; give a stack of at least one element")
    if num_draws < 1:
        raise ValueError(f"{num_draws} draws measure nothing; draw at least 1")
    index = draw_integers(num_samples, (num_stacks, num_draws), samples, generator)
    return [take(samples, rows) for rows in index]


def draw_for(
    law: Law,
    samples: State,
    inputs: State | None,
    num_draws: int,
    generator: torch.Generator | None = None,
) -> list[State]:
    """Elements for a law to speak of: states from `samples`, and what a cell is given from `inputs`
    if there are any."""
    num_inputs = 0 if inputs is None else law.num_inputs
    states = draw_elements(samples, law.arity - num_inputs, num_draws, generator)
    if inputs is None or not num_inputs:
        return states
    return [*states, *draw_elements(inputs, num_inputs, num_draws, generator)]


def draw_integers(
    high: int, shape: tuple[int, ...], like: State, generator: torch.Generator | None = None
) -> Tensor:
    """Integers from 0 to `high` - 1, drawn on the generator's device, then on that of `like`."""
    device = generator.device if generator is not None else torch.device("cpu")
    drawn = torch.randint(high, shape, generator=generator, device=device)
    return drawn.to(tensors_of(like)[0].device)
