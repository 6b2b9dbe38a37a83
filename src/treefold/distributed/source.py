"""The files of a table, checked before any work begins, and read block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from treefold.distributed.columns import check_type, one_array
from treefold.distributed.model_fold import ModelFold

ROWS_PER_BLOCK = 1 << 16
"""Rows of a file that are folded at once: the first so many, the next, ... It decides the trees."""

STATE, NUM_ROWS, NUM_BAD, ANSWER = "state", "num_rows", "num_bad", "answer"
"""Columns of the result, besides the key's."""

FILE, ROW, PROBLEM = "file", "row", "problem"
"""Columns of the table of bad rows, besides the key's."""

TAKEN = (STATE, NUM_ROWS, NUM_BAD, ANSWER, FILE, ROW, PROBLEM)

KEY_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_fixed_size_binary, pa.types.is_temporal, pa.types.is_decimal, pa.types.is_null),
)


class Piece(NamedTuple):
    """Row groups that follow each other in a file, and the rows of it that are to be folded.

    Those are whole blocks: row groups may begin before the first, and end after the last of them.
    """

    file: str
    row_groups: list[int]
    first_row: int
    """The bytes of the first row group."""
    begin: int
    end: int


class Block(NamedTuple):
    """Keys and values of rows that are folded at once, and where they are."""

    file: str
    first_row: int
    keys: pa.Array
    values: pa.Array


@dataclass(frozen=True)
class Source:
    """A table to fold: files with their row groups' sizes, its columns, the type of its keys."""

    files: dict[Path, list[int]]
    key: str
    on: str
    key_type: pa.DataType

    @property
    def num_rows(self) -> int:
        """The number of rows of all files."""
        return sum(map(sum, self.files.values()))

    def pieces(self, most_rows: int) -> list[Piece]:
        """Parts of files that can be read apart, of about `most_rows` rows or one row group."""
        return [
            piece
            for file, sizes in self.files.items()
            for piece in _pieces_of(str(file), sizes, most_rows)
        ]

    def blocks(self, piece: Piece) -> Iterator[Block]:
        """Read a piece, a block at a time; a ValueError names a file that is damaged."""
        try:
            with pq.ParquetFile(piece.file, page_checksum_verification=True) as file:
                batches = file.iter_batches(
                    row_groups=piece.row_groups, columns=[self.key, self.on]
                )
                for first_row, table in _in_blocks(batches, piece):
                    keys = one_array(table[self.key]).cast(self.key_type)
                    yield Block(piece.file, first_row, keys, one_array(table[self.on]))
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{piece.file} cannot be read as Parquet: {error}") from None


def find_source(source: Path, key: str, on: str, fold: ModelFold) -> Source:
    """The Parquet file, or all files in a folder that have rows, in the order of their names.

    Paths are absolute: workers may run in other folders.
    """
    _check_names(key, on)
    files: dict[Path, list[int]] = {}
    kinds: dict[pa.DataType, Path] = {}
    for path in _files(source):
        metadata = _metadata(path)
        if not metadata.num_rows:
            continue  # such files often have no types either
        kind = _check_schema(metadata.schema.to_arrow_schema(), path, key, on, fold)
        kinds.setdefault(kind, path)
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        files[path] = sizes
    if not files:
        raise ValueError(f"{source} has no rows; there is nothing to fold")
    return Source(files, key, on, _common_key_type(kinds, key))


def _pieces_of(file: str, sizes: list[int], most_rows: int) -> Iterator[Piece]:
    """Cut between row groups; a block belongs to the piece in which it begins."""
    total, first, number = sum(sizes), 0, 0
    while number < len(sizes):
        last, next_number = first, number
        while next_number < len(sizes) and (next_number == number or last - first < most_rows):
            last, next_number = last + sizes[next_number], next_number + 1
        begin, end = (-(-row // ROWS_PER_BLOCK) * ROWS_PER_BLOCK for row in (first, last))
        end, reach, until = min(end, total), last, next_number
        while reach < end:  # the last block continues in later row groups
            reach, until = reach + sizes[until], until + 1
        if begin < end:
            yield Piece(file, list(range(number, until)), first, begin, end)
        first, number = last, next_number


def _in_blocks(batches: Iterator[pa.RecordBatch], piece: Piece) -> Iterator[tuple[int, pa.Table]]:
    """The rows from `begin` to `end`, block by block, each with the number of its first row."""
    row, first, num_held = piece.first_row, piece.begin, 0
    held: list[pa.RecordBatch] = []
    for batch in batches:
        begin, end = (min(max(0, cut - row), len(batch)) for cut in (piece.begin, piece.end))
        row, rest = row + len(batch), batch.slice(begin, end - begin)
        while rest.num_rows:
            taken = rest.slice(0, ROWS_PER_BLOCK - num_held)
            held, num_held, rest = [*held, taken], num_held + len(taken), rest.slice(len(taken))
            if num_held == ROWS_PER_BLOCK:
                yield first, pa.Table.from_batches(held)
                first, held, num_held = first + num_held, [], 0
    if held:
        yield first, pa.Table.from_batches(held)


def _check_names(key: str, on: str) -> None:
    if key in TAKEN:
        raise ValueError(
            f"the key is called {key!r}, like a column of the result or of its bad rows; rename it "
            f"to something else than {', '.join(TAKEN)}"
        )
    if key == on:
        raise ValueError(f"the key and the column to fold are both {key!r}; name two columns")


def _check_schema(schema: pa.Schema, path: Path, key: str, on: str, fold: ModelFold) -> pa.DataType:
    """The type of the keys, dictionaries decoded; a ValueError if a column cannot be used."""
    for column in (key, on):
        found = schema.names.count(column)
        if not found:
            raise ValueError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}")
        if found > 1:
            raise ValueError(
                f"{path} has {found} columns called {column!r}, expected one; rename the others"
            )
    check_type(schema.field(on).type, fold, on, f"{path}: ")
    kind = schema.field(key).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(is_one(plain) for is_one in KEY_TYPES):
        raise ValueError(
            f"{path}: the key {key!r} holds {kind}; expected integers, texts, dates or other "
            "single values; make a column of such values to group by"
        )
    return plain


def _common_key_type(kinds: dict[pa.DataType, Path], key: str) -> pa.DataType:
    """The one type that keys have in all files; files of null keys alone go with any."""
    found = {kind: path for kind, path in kinds.items() if not pa.types.is_null(kind)}
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise ValueError(
            f"the key {key!r} holds {one} in {first} and {other} in {second}; expected one type "
            "in all files; write them with the same type"
        )
    return next(iter(found), pa.int64())


def _files(source: Path) -> list[Path]:
    found = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    files = [path.resolve() for path in found if path.is_file()]
    if not files:
        raise ValueError(f"{source} is no Parquet file and no folder with some; check the path")
    return files


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
