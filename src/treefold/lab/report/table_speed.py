"""Seconds per epoch at chosen set sizes, beside the paper's."""

from collections.abc import Sequence

from treefold.lab.report.figure_notes import effort_of
from treefold.lab.report.groups import Group
from treefold.lab.report.hardware import conditions_of
from treefold.lab.report.published_seconds import published_seconds
from treefold.lab.report.styles import Style
from treefold.lab.report.table import Column, Table
from treefold.lab.report.table_notes import note_cells, note_columns, notes_of
from treefold.lab.report.text import Link, Small, Text, range_of, with_spread


def speed_table(groups: Sequence[Group], styles: dict[str, Style]) -> Table | None:
    """A row for each group that measured its speed by set size."""
    shown = [group for group in groups if group.seconds_by_size()]
    if not shown:
        return None
    sizes = sizes_to_show(shown)
    published = {size for group in shown for size in published_seconds(group)}
    columns = [Column("aggregator"), Column("preset")]
    for size in sizes:
        heads = ["ours", "paper's GPU", "ours / paper"] if size in published else ["ours"]
        columns += [Column(head, f"seconds at size {size}", number=True) for head in heads]
    columns.append(Column(f"size {sizes[-1]} / size {sizes[0]}", number=True))
    notes = notes_of(shown)
    columns += note_columns(notes)
    rows: list[tuple[Text, ...]] = [
        (
            (styles[group.row].label, Small(styles[group.row].kind)),
            (Link(group.variant, group.anchor), Small(effort_of(group))),
            *(cell for size in sizes for cell in _cells(group, size, size in published)),
            _growth(group, sizes),
            *note_cells(group, notes),
        )
        for group in shown
    ]
    caption = f"Mean over repetitions (lowest to highest). {conditions_of(shown)}"
    sources = {e.source for group in shown for e in published_seconds(group).values()}
    if sources:
        caption += f" The paper's GPU: {'; '.join(sorted(sources))}."
    title = f"Seconds per epoch: {shown[0].experiment}"
    return Table(title, caption, tuple(columns), tuple(rows), tuple(notes))


def sizes_to_show(groups: Sequence[Group]) -> list[int]:
    """The sizes the paper has numbers for, with the smallest and the largest."""
    measured = sorted({size for group in groups for size in group.seconds_by_size()})
    published = {size for group in groups for size in published_seconds(group)}
    return sorted({measured[0], measured[-1], *(published & set(measured))})


def _cells(group: Group, size: int, published: bool) -> list[Text]:
    ours, theirs = group.seconds_by_size().get(size), published_seconds(group).get(size)
    own: Text = ()
    if ours:
        own = (Link(f"{ours.mean:.2f}", group.anchor), *range_of(ours, 2))
    if not published:
        return [own]
    if theirs is None:
        return [own, (), ()]
    paper = with_spread(theirs.value, theirs.spread, 1)
    return [own, paper, (Link(f"{ours.mean / theirs.value:.2f}", group.anchor),) if ours else ()]


def _growth(group: Group, sizes: Sequence[int]) -> Text:
    seconds = group.seconds_by_size()
    first, last = seconds.get(sizes[0]), seconds.get(sizes[-1])
    if first is None or last is None or first.mean <= 0 or len(sizes) < 2:
        return ()
    return (Link(f"{last.mean / first.mean:.1f}", group.anchor),)
