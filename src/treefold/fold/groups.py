"""Groups: which rows sit together, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from treefold.fold.transfer import send
from treefold.shapes import Int

INTEGER_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of rows into groups, some of them possibly empty.

    `x[groups.order]` brings the rows of each group together, group after group; `groups.sizes`
    has how many each has. Build one with `from_index`, `from_ptr`, `from_sizes`, `from_mask` or
    `from_nested`.
    """

    sizes: Int[Tensor, " groups"]
    order: Int[Tensor, " n"]
    num_rows: int
    """The number of rows of the tensor to be grouped; more than `n` if some belong to no group."""
    known_sizes: Int[Tensor, " groups"] | None = field(default=None, repr=False)
    """The sizes in the host's memory, where groups on another device have them already."""
    plans: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """Plans over these groups, by name: see `plan_of` and `PackedOrder.of`."""

    @classmethod
    def from_index(
        cls, index: Tensor, num_groups: int | None = None, num_rows: int | None = None
    ) -> "Groups":
        """Row `i` belongs to group `index[i]`; rows of a group keep their order."""
        if index.dtype not in INTEGER_TYPES or index.dim() != 1:
            raise _no_integers("index", index)
        if num_rows is not None and index.numel() != num_rows:
            raise ValueError(f"index has {index.numel()} entries, but x has {num_rows} rows")
        if not index.is_cpu:
            return cls._from_index_elsewhere(index, num_groups)
        lowest, highest = map(int, torch.aminmax(index)) if index.numel() else (0, -1)
        if num_groups is None:
            num_groups = highest + 1
        if lowest < 0 or highest >= num_groups or num_groups < 0:
            raise _out_of_range(lowest, highest, num_groups)
        index = index.long()
        sizes = torch.bincount(index, minlength=num_groups)
        if bool((index[1:] >= index[:-1]).all()):
            order = torch.arange(index.numel(), device=index.device)
        else:
            order = torch.argsort(index, stable=True)
        return cls(sizes, order, index.numel())

    @classmethod
    def _from_index_elsewhere(cls, index: Tensor, num_groups: int | None) -> "Groups":
        """Off the CPU: sizes, and what may be wrong with the index, are read at once."""
        if num_groups is None or num_groups < 0 or not index.numel():
            return cls.from_index(index.cpu(), num_groups).to(index.device)
        in_order, order = index.long().sort(stable=True)
        groups = torch.arange(num_groups + 1, device=index.device)
        ptr = torch.searchsorted(in_order, groups)
        read = torch.cat([ptr, in_order[:1], in_order[-1:]]).cpu()
        lowest, highest = int(read[-2]), int(read[-1])
        if lowest < 0 or highest >= num_groups:
            raise _out_of_range(lowest, highest, num_groups)
        return cls(ptr.diff(), order, order.numel(), read[:-2].diff())

    @classmethod
    def from_ptr(cls, ptr: Tensor, num_rows: int | None = None) -> "Groups":
        """Group `g` is the rows `ptr[g]` to `ptr[g + 1] - 1`; `ptr` runs from 0 to `num_rows`."""
        if ptr.dtype not in INTEGER_TYPES or ptr.dim() != 1:
            raise _no_integers("ptr", ptr)
        if ptr.numel() == 0:
            raise ValueError("ptr is empty; expected one entry more than there are groups")
        given = ptr.long()
        ptr = given.cpu()
        first, last = int(ptr[0]), int(ptr[-1])
        if first != 0 or (num_rows is not None and last != num_rows):
            end = "the number of rows" if num_rows is None else num_rows
            raise ValueError(f"ptr runs from {first} to {last}; expected from 0 to {end}")
        sizes = ptr.diff()
        if bool((sizes < 0).any()):
            place = int((sizes < 0).nonzero()[0])
            raise ValueError(
                f"ptr decreases from {int(ptr[place])} to {int(ptr[place + 1])} at place "
                f"{place + 1}; expected a running total of group sizes"
            )
        return cls(given.diff(), torch.arange(last, device=given.device), last, sizes)

    @classmethod
    def from_sizes(cls, sizes: Tensor | Sequence[int], num_rows: int | None = None) -> "Groups":
        """Consecutive rows: the first `sizes[0]` are group 0, the next `sizes[1]` group 1, ..."""
        host_sizes = checked_sizes(sizes)
        total = int(host_sizes.sum())
        if num_rows is not None and total != num_rows:
            raise ValueError(f"sizes add up to {total}, but there are {num_rows} rows")
        device = sizes.device if isinstance(sizes, Tensor) else None
        there = host_sizes if device is None or device.type == "cpu" else cast(Tensor, sizes).long()
        return cls(there, torch.arange(total, device=device), total, host_sizes)

    @classmethod
    def from_mask(cls, mask: Tensor) -> "Groups":
        """The rows of a padded `[groups, places, ...]` tensor, flattened, where `mask` is true."""
        if mask.dtype != torch.bool or mask.dim() != 2:
            raise ValueError(
                f"mask is {mask.dtype} of shape {tuple(mask.shape)}; "
                "expected torch.bool of shape [groups, places]"
            )
        return cls(mask.sum(1), mask.flatten().nonzero().squeeze(1), mask.numel())

    @classmethod
    def from_nested(cls, nested: Tensor) -> "Groups":
        """The components of a jagged nested tensor, as groups of the rows of `nested.values()`."""
        if not nested.is_nested or nested.layout != torch.jagged:
            raise ValueError(
                f"the tensor has layout {nested.layout}; expected a nested tensor of layout "
                "torch.jagged, as torch.nested.nested_tensor(..., layout=torch.jagged) makes"
            )
        if getattr(nested, "_ragged_idx", 1) != 1:
            raise ValueError(
                f"the ragged axis of the nested tensor is {nested._ragged_idx}; expected 1, so "  # type: ignore[attr-defined]
                "that its values are rows: transpose it back"
            )
        offsets, lengths = nested.offsets(), nested.lengths()  # type: ignore[attr-defined]
        num_rows = nested.values().shape[0]
        if lengths is None:
            return cls.from_ptr(offsets, num_rows)
        lengths = lengths.long()
        within = places_within(lengths)
        starts = offsets[:-1].long()
        order = torch.repeat_interleave(starts, lengths, output_size=within.numel()) + within
        return cls(lengths, order, num_rows)

    @property
    def num_groups(self) -> int:
        """The number of groups, empty ones included."""
        return self.sizes.numel()

    @property
    def has_every_row(self) -> bool:
        """True if no row is left out: `order` is a permutation."""
        return self.order.numel() == self.num_rows

    @property
    def max_size(self) -> int:
        """The size of the largest group; 0 if there are no groups."""
        return int(self.host_sizes.max()) if self.num_groups else 0

    @cached_property
    def host_sizes(self) -> Int[Tensor, " groups"]:
        """The sizes in the host's memory: read once, and known already after `to(device)`."""
        with torch.inference_mode(False):
            return self.sizes.cpu() if self.known_sizes is None else self.known_sizes

    @cached_property
    def index(self) -> Int[Tensor, " n"]:
        """The group of each place: `index[i]` is where row `order[i]` belongs."""
        with torch.inference_mode(False):  # for training too, wherever it is first asked for
            return torch.repeat_interleave(self.sizes, output_size=self.order.numel())

    def shuffled(self, generator: torch.Generator | None = None) -> "Groups":
        """The same groups, each with its rows in a fresh, uniformly random order."""
        n, device = self.order.numel(), self.order.device
        where = device if generator is None else generator.device
        scatter = torch.randperm(n, generator=generator, device=where)
        if where != device:
            (scatter,) = send([scatter], device)
        # A stable sort by group brings the groups together again and keeps the shuffle inside each.
        group = torch.repeat_interleave(self.sizes, output_size=n).index_select(0, scatter)
        back = torch.argsort(group, stable=True)
        order = self.order.index_select(0, scatter.index_select(0, back))
        return Groups(self.sizes, order, self.num_rows, self.known_sizes)

    def rearranged(self, number: int) -> "Groups":
        """The same groups in fixed order number `number`; number 0 is the order they have.

        Where a row goes depends on its place and its group's size alone, not on other groups.
        """
        if number == 0:
            return self
        place = places_within(self.sizes, self.order.numel())
        mixed = _mix(place + _mix(torch.full_like(place, number)))
        by_key = torch.argsort(mixed, stable=True)
        back = torch.argsort(self.index[by_key], stable=True)
        return Groups(self.sizes, self.order[by_key[back]], self.num_rows, self.known_sizes)

    def to(self, device: torch.device | str) -> "Groups":
        """The same groups on another device, in one transfer; the host still knows their sizes."""
        sizes, order = send([self.sizes, self.order], torch.device(device))
        known = self.sizes if self.sizes.is_cpu else self.known_sizes
        return Groups(sizes, order, self.num_rows, known)


def places_within(sizes: Int[Tensor, " groups"], total: int | None = None) -> Int[Tensor, " n"]:
    """0, 1, ..., sizes[0] - 1, 0, 1, ..., sizes[1] - 1, ...: each row's place in its group.

    Off the CPU, their `total` saves waiting for it.
    """
    starts = sizes.cumsum(0) - sizes
    total = int(sizes.sum()) if total is None else total
    places = torch.arange(total, device=sizes.device)
    return places - torch.repeat_interleave(starts, sizes, output_size=total)


def checked_sizes(sizes: Tensor | Sequence[int]) -> Int[Tensor, " groups"]:
    """Group sizes on the host as int64, or a ValueError that names what is wrong with them."""
    if not isinstance(sizes, Tensor):
        sizes = torch.tensor(sizes, dtype=None if len(sizes) else torch.int64)
    if sizes.dtype not in INTEGER_TYPES or sizes.dim() != 1:
        raise _no_integers("sizes", sizes)
    sizes = sizes.cpu()
    if sizes.numel() and int(sizes.min()) < 0:
        raise ValueError(f"sizes hold {int(sizes.min())}; expected 0 or more")
    return sizes.long()


def _mix(numbers: Tensor) -> Tensor:
    """Numbers that look random, from numbers that do not: two rounds of multiply and fold."""
    for multiplier in (0x9E3779B97F4A7C1, 0x2545F4914F6CDD1D):
        numbers = (numbers + 1) * multiplier
        numbers = numbers ^ (numbers >> 29)
    return numbers


def _no_integers(name: str, tensor: Tensor) -> ValueError:
    message = f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}"
    if name == "index" and tensor.dim() == 2 and tensor.shape[0] == 2:
        return ValueError(
            f"{message}, like an edge_index; expected one dimension, the group of each row: for "
            "messages along edges, edge_index[1]"
        )
    return ValueError(f"{message}; expected integers in one dimension, such as torch.int64")


def _out_of_range(lowest: int, highest: int, num_groups: int) -> ValueError:
    if lowest < 0:
        return ValueError(f"index holds {lowest}; expected values from 0 on")
    if num_groups < 0:
        return ValueError(f"the number of groups is {num_groups}; expected 0 or more")
    expected = f"values from 0 to {num_groups - 1}" if num_groups else "no entries"
    return ValueError(
        f"index holds {highest}, expected {expected}; give a larger number of groups (dim_size)"
    )
