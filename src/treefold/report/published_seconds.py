"""The paper's seconds per epoch, on a GPU: what our own are shown beside."""

from treefold.report.groups import Group
from treefold.report.published import Published

_SOURCE = "subsec:2min, Efficiency; fig:2min_speedtest"
SECONDS = {
    "binary-gru-assoc": {20: Published(48.2, 0.4, _SOURCE), 200: Published(79.4, 0.5, _SOURCE)},
    "gru": {20: Published(46.6, 0.5, _SOURCE), 200: Published(397.2, 1.3, _SOURCE)},
}


def published_seconds(group: Group) -> dict[int, Published]:
    """By set size: what the record brings as `seconds_per_epoch@n`, else what the paper says."""
    found = dict(SECONDS.get(group.row, {}))
    for name in group.runs[0].record.reported:
        size = name.removeprefix("seconds_per_epoch@")
        if size == name or not size.isdecimal():
            continue
        entry = group.reported(name)
        if entry and entry.value > 0:
            found[int(size)] = entry
    return dict(sorted(found.items()))
