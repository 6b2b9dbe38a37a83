"""Records: what a run leaves on the disk to be read later, without torch."""

from treefold.records.atomic import (
    StorageError,
    append_durably,
    check_writable,
    remove_leftovers,
    replaced_atomically,
    storage_errors,
    write_atomically,
)
from treefold.records.metrics_log import MetricsLog
from treefold.records.plain import Plain, Reference, decode, encode
from treefold.records.provenance import commit, hardware, versions
from treefold.records.record import Record, Status, find_runs

__all__ = [
    "MetricsLog",
    "Plain",
    "Record",
    "Reference",
    "Status",
    "StorageError",
    "append_durably",
    "check_writable",
    "commit",
    "decode",
    "encode",
    "find_runs",
    "hardware",
    "remove_leftovers",
    "replaced_atomically",
    "storage_errors",
    "versions",
    "write_atomically",
]
