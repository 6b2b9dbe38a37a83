"""The paper's seconds per epoch, on a GPU: what our own are shown beside."""

from treefold.lab.report.groups import Group
from treefold.lab.report.published import Published


def published_seconds(group: Group) -> dict[int, Published]:
    """By set size: what the record brings as `seconds_per_epoch@n`."""
    found = {}
    for name in group.runs[0].record.reported:
        size = name.removeprefix("seconds_per_epoch@")
        if size == name or not size.isdecimal():
            continue
        entry = group.reported(name)
        if entry and entry.value > 0:
            found[int(size)] = entry
    return dict(sorted(found.items()))
