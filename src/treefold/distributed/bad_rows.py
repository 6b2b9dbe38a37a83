"""Bad rows on their way to a file: lines of JSON next to a key's state, with a limit per key."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ray.data.aggregate import AggregateFnV2

from treefold.atomic import replaced_atomically
from treefold.distributed.schema import BAD, FILE, PROBLEM, ROW


class JoinedLines(AggregateFnV2[str, str]):  # type: ignore[misc]
    """The lines of a text column, at most `most` of them per key."""

    def __init__(self, on: str, most: int) -> None:
        self.most = most
        super().__init__(on, lambda: "", on=on, ignore_nulls=False)

    def aggregate_block(self, block: Any) -> str:
        """The lines of one key in one block."""
        texts: list[str] = block[self._target_col_name].to_pylist()
        return self._cut("".join(texts))

    def combine(self, current_accumulator: str, new: str) -> str:
        """The lines of both."""
        return self._cut(current_accumulator + new)

    def _cut(self, text: str) -> str:
        return "".join(text.splitlines(keepends=True)[: self.most])


def listed_rows(batch: pa.Table, key: str) -> list[dict[str, Any]]:
    """The bad rows that a batch of the result lists: key, file, row and problem."""
    lines = zip(batch[key].to_pylist(), batch[BAD].to_pylist(), strict=True)
    return [{key: name, **json.loads(line)} for name, text in lines for line in text.splitlines()]


def bad_rows_path(out: Path) -> Path:
    """The file that lists the bad rows of a fold."""
    return out.with_name(f"{out.stem}.bad.parquet")


def write_bad_rows(bad: list[dict[str, Any]], key: str, kind: pa.DataType, path: Path) -> None:
    """Write the bad rows, if any, with keys of type `kind`; else remove those of earlier folds."""
    if not bad:
        path.unlink(missing_ok=True)
        return
    names = [(key, kind), (FILE, pa.string()), (ROW, pa.int64()), (PROBLEM, pa.string())]
    with replaced_atomically(path) as temporary:
        pq.write_table(pa.Table.from_pylist(bad, pa.schema(names)), temporary)
