"""How the work on a table is cut: what the fold does and what `scale` calculates with."""

ROWS_AT_ONCE = 1 << 16
"""Rows that are in memory at once; a key gets one partial state for each such batch."""

MOST_TASKS = 10_000
"""Tasks in which a table is read, however many row groups it has."""

PARTITIONS_PER_CORE = 2
"""Parts into which keys are divided to be merged, unless there are fewer row groups."""

MOST_BAD_PER_KEY = 100
"""Bad rows of a key that are named with their position; all are counted."""


def num_partitions(num_cores: int, num_pieces: int) -> int:
    """Enough for all cores to merge, and no more than there is to merge."""
    return max(1, min(PARTITIONS_PER_CORE * num_cores, num_pieces))
