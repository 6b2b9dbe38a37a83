"""Records: what a run leaves on the disk to be read later, without torch."""

from treefold.atomic import (
    StorageError,
    append_durably,
    check_writable,
    remove_leftovers,
    replaced_atomically,
    storage_errors,
    write_atomically,
)
from treefold.lab.runs.lock import FolderInUse, locked
from treefold.lab.runs.metrics_log import MetricsLog
from treefold.plain import Plain, Reference, decode, encode
from treefold.lab.runs.provenance import commit, hardware, num_cores, versions
from treefold.lab.runs.record import (
    DamagedRecord,
    Record,
    Status,
    UnreadableRecord,
    as_json,
    find_runs,
    found_record,
)

__all__ = [
    "DamagedRecord",
    "FolderInUse",
    "MetricsLog",
    "Plain",
    "Record",
    "Reference",
    "Status",
    "StorageError",
    "UnreadableRecord",
    "append_durably",
    "as_json",
    "check_writable",
    "commit",
    "decode",
    "encode",
    "find_runs",
    "found_record",
    "hardware",
    "locked",
    "num_cores",
    "remove_leftovers",
    "replaced_atomically",
    "storage_errors",
    "versions",
    "write_atomically",
]
