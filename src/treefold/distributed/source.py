"""The files of a table and their row groups, found and checked before any work begins."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from treefold.distributed.model_fold import ModelFold
from treefold.distributed.schema import check_names, check_schema, common_key_type

Piece = dict[str, Any]
"""A row group: its `file`, its number `row_group`, `first_row` in the file, and `num_rows`."""


@dataclass(frozen=True)
class Source:
    """A table to fold: its pieces, and the type of its keys."""

    files: list[Path]
    pieces: list[Piece]
    key_type: pa.DataType

    @property
    def num_rows(self) -> int:
        """The number of rows of all pieces."""
        return sum(piece["num_rows"] for piece in self.pieces)


def find_source(source: Path, key: str, on: str, fold: ModelFold) -> Source:
    """The row groups of a Parquet file, or of all in a folder, that have rows.

    Paths are absolute: workers may run in other folders.
    """
    check_names(key, on)
    files = _files(source)
    pieces: list[Piece] = []
    kinds: dict[pa.DataType, Path] = {}
    for path in files:
        metadata = _metadata(path)
        if not metadata.num_rows:
            continue  # such files often have no types either
        kinds.setdefault(check_schema(metadata.schema.to_arrow_schema(), path, key, on, fold), path)
        pieces += _row_groups(path, metadata)
    if not pieces:
        raise ValueError(f"{source} has no rows; there is nothing to fold")
    return Source(files, pieces, common_key_type(kinds, key))


def refuse_to_overwrite(source: Source, *outputs: Path) -> None:
    """A ValueError if one of the files to be written is one of those to be read."""
    for out in outputs:
        if out.resolve() in source.files:
            raise ValueError(
                f"{out} would be written, and it is one of the files to fold; write elsewhere"
            )


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


def _row_groups(path: Path, metadata: pq.FileMetaData) -> list[Piece]:
    pieces: list[Piece] = []
    first = 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        if rows:
            piece = {"file": str(path), "row_group": number, "first_row": first, "num_rows": rows}
            pieces.append(piece)
        first += rows
    return pieces
