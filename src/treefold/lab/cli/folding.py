"""`treefold fold`: fold a table with a run's model."""

import logging
import sys
import warnings
from pathlib import Path

NUM_SHOWN = 10
"""Bad rows that are printed; all that are kept go to a file."""


def fold_file(
    run: Path, source: Path, key: str, on: str, out: Path, decode: bool, address: str | None
) -> None:
    """Fold a Parquet table with a run's model, and print the counts of its rows."""
    warnings.simplefilter("ignore")  # Ray's own, about its future
    from treefold.distributed import MOST_BAD_PER_KEY, bad_rows_path, fold_table
    from treefold.lab.experiments import load_fold

    model = load_fold(run)
    if not sys.stderr.isatty():
        logging.getLogger("ray.data").setLevel(logging.INFO)
    summary = fold_table(model, source, out, key=key, on=on, decode=decode, address=address)
    print(f"{summary.num_rows:,} rows of {summary.num_keys:,} keys folded to {out}")
    print(f"how far answers move with the order of merging: {summary.stability}")
    if summary.num_bad:
        print(f"{summary.num_bad:,} rows could not be folded; see {bad_rows_path(out)}")
        for line in summary.bad[:NUM_SHOWN]:
            print(f"  {line['file']} row {line['row']}, {key} {line[key]!r}: {line['problem']}")
        if summary.num_bad > NUM_SHOWN:
            print(f"  and {summary.num_bad - NUM_SHOWN:,} more")
    if summary.num_unnamed:
        print(
            f"{summary.num_unnamed:,} of them are not in that file: it names at most "
            f"{MOST_BAD_PER_KEY} of a key"
        )
