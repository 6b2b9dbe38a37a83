"""Tasks on multisets of b-bit integers, each with the exact monoid that solves it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from treefold.algebra import ExactMonoid, State
from treefold.fold import plan_tree, tree_reduce
from treefold.lab.tasks.set_data import SetData
from treefold.shapes import Int, Shaped

BALANCED = 1 << 19


@dataclass(frozen=True)
class SetTask(ABC):
    """Random multisets of integers from U(0, 2^bits - 1), and the answer an exact monoid gives.

    The sizes are the paper's (subsec:2min): training sets of U(1, 16) integers, validation sets of
    32; evaluation sets have whatever size is asked for. Everything is drawn from a seed; training,
    validation and each evaluation size have their own streams.
    """

    name: ClassVar[str]
    """As in recipes."""

    bits: int = 8
    num_train: int = 65_536
    max_train_size: int = 16
    num_validation: int = 1_024
    validation_size: int = 32
    num_evaluation: int = 1_024

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 16:
            raise ValueError(f"integers of {self.bits} bits; expected 1 to 16")
        for name in (
            *("num_train", "num_validation", "num_evaluation"),
            *("max_train_size", "validation_size"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected 1 or more")
        _ = self.monoid  # which refuses numbers that make no sense, such as k = 0

    @property
    @abstractmethod
    def monoid(self) -> ExactMonoid:
        """The monoid that solves the task."""

    @property
    def answer_bits(self) -> int:
        """The number of bits of an answer."""
        return self.bits

    @property
    def num_values(self) -> int:
        """The number of different integers."""
        return 1 << self.bits

    def encode(self, values: Int[Tensor, " n"]) -> State:
        """The elements of the monoid that stand for the integers."""
        return self.monoid.encode(values)

    def answer(self, state: State) -> Int[Tensor, " sets"]:
        """Decode a state of the monoid to an answer of `answer_bits` bits."""
        answer: Tensor = self.monoid.decode(state)
        return answer

    def train(self, seed: int) -> SetData:
        """The training sets, of U(1, max_train_size) integers each."""
        generator = stream(seed, 0)
        sizes = torch.randint(1, self.max_train_size + 1, (self.num_train,), generator=generator)
        return self._draw(sizes, generator)

    def validation(self, seed: int) -> SetData:
        """The validation sets, all of one size."""
        sizes = torch.full((self.num_validation,), self.validation_size)
        return self._draw(sizes, stream(seed, 1))

    def evaluation(self, size: int, seed: int) -> SetData:
        """Evaluation sets of one size."""
        sizes = torch.full((self.num_evaluation,), size)
        return self._draw(sizes, stream(seed, 1 + size))

    def balanced(self, size: int, seed: int) -> SetData:
        """Evaluation sets of one size whose answers are about equally frequent.

        The same as `evaluation` unless uniform integers make some answers common.
        """
        return self.evaluation(size, seed)

    def label(self, values: Int[Tensor, " n"], sizes: Int[Tensor, " sets"]) -> SetData:
        """Multisets with the answers that the monoid gives."""
        folded = tree_reduce(self.monoid, self.encode(values), plan_tree(sizes))
        return SetData(values, sizes, self.answer(folded).long())

    def _draw(self, sizes: Tensor, generator: torch.Generator) -> SetData:
        values = torch.randint(0, self.num_values, (int(sizes.sum()),), generator=generator)
        return self.label(values, sizes)


def stream(seed: int, number: int) -> torch.Generator:
    """Make the generator of one part of the data of a seed.

    0 is training, 1 validation, 1 + n evaluation at size n, `BALANCED` + n the balanced one.
    """
    return torch.Generator().manual_seed((seed << 20) + number)


def to_bits(numbers: Int[Tensor, " *n"], bits: int) -> Int[Tensor, " *n bits"]:
    """Binary digits, the lowest first."""
    places = torch.arange(bits, device=numbers.device)
    return (numbers.unsqueeze(-1) >> places) & 1


def from_bits(digits: Shaped[Tensor, " *n bits"]) -> Int[Tensor, " *n"]:
    """The integers with these binary digits, the lowest first."""
    places = torch.arange(digits.shape[-1], device=digits.device)
    return (digits.long() << places).sum(-1)
