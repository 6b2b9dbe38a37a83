"""The pictures of the pages: folds as trees, what padding does to an answer, a finite monoid.

python docs/draw_idea.py [FOLDER]
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch_geometric.nn import aggr as pyg

import treefold
from treefold.atomic import write_atomically
from treefold.finite import close, minimize
from treefold.lab.tasks import SET_TASKS

matplotlib.use("Agg")
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "treefold",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
LEAF, NODE, LINE, THEIRS, OURS = "#dbe9f6", "#fdebd0", "#555555", "#c0392b", "#1f6fb2"
OTHER_SIZES = (1, 2, 4, 8, 16, 32, 64)


def bracket_list(leaves: list[str]):
    """((a b) c) d, ...: one by one from the left."""
    return leaves[0] if len(leaves) == 1 else (bracket_list(leaves[:-1]), leaves[-1])


def bracket_tree(leaves: list[str]):
    """Two halves, each folded in the same way."""
    if len(leaves) == 1:
        return leaves[0]
    half = len(leaves) // 2
    return bracket_tree(leaves[:half]), bracket_tree(leaves[half:])


def height(tree) -> int:
    """The number of applications between the furthest leaf and the answer."""
    return 0 if isinstance(tree, str) else 1 + max(map(height, tree))


def draw_tree(axes: Axes, tree, start: float = 0.0) -> tuple[float, float, float]:
    """Draw the tree with its leaves in a row; gives its root's place and where leaves end."""
    if isinstance(tree, str):
        _circle(axes, start, 0, f"${tree}$", LEAF)
        return start, 0, start + 1
    left_x, left_y, middle = draw_tree(axes, tree[0], start)
    right_x, right_y, end = draw_tree(axes, tree[1], middle)
    x, y = (left_x + right_x) / 2, height(tree)
    for child_x, child_y in ((left_x, left_y), (right_x, right_y)):
        axes.plot([child_x, x], [child_y, y], color=LINE, linewidth=1.2, zorder=1)
    _circle(axes, x, y, "⊕", NODE)
    return x, y, end


def _circle(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.scatter([x], [y], s=430, color=colour, edgecolors=LINE, linewidths=1, zorder=2)
    axes.text(x, y, text, ha="center", va="center", zorder=3)


def trees_figure(trees: dict[str, object], width: float) -> Figure:
    """Trees side by side, each under what it is called."""
    figure = Figure(figsize=(width, 0.9 + 0.52 * max(map(height, trees.values()))))
    panels = figure.subplots(1, len(trees), sharey=True, squeeze=False)[0]
    for axes, (title, tree) in zip(panels, trees.items(), strict=True):
        draw_tree(axes, tree)
        axes.set_title(title, fontsize=11)
        axes.margins(0.08, 0.12)
        axes.axis("off")
    return figure


def leaves(count: int) -> list[str]:
    """x₁ to xₙ."""
    return [f"x_{number}" for number in range(1, count + 1)]


def list_figure() -> Figure:
    """A recurrent network: one by one."""
    return trees_figure({"a fold over a list: 8 elements, 7 steps": bracket_list(leaves(8))}, 6)


def tree_figure() -> Figure:
    """The same elements, pairs at once."""
    return trees_figure({"a fold over a tree: 8 elements, 3 steps": bracket_tree(leaves(8))}, 6)


def bracketing_figure() -> Figure:
    """The gain of associativity: one answer from many brackets."""
    x = leaves(6)
    stream = ((bracket_tree(x[:4]), x[4]), x[5])
    shards = (bracket_tree(x[:2]), bracket_tree(x[2:]))
    named = {"all at once": bracket_tree(x), "as they arrive": stream, "on two machines": shards}
    return trees_figure(named, 10)


def moved(aggregator: Callable[..., torch.Tensor], mine: torch.Tensor, other: int) -> float:
    """The movement of the answer for `mine` when a set of `other` elements joins the batch."""
    theirs = torch.randn(other, mine.shape[1], generator=torch.Generator().manual_seed(other))
    alone = aggregator(mine, torch.zeros(len(mine), dtype=torch.int64))
    index = torch.tensor([0] * len(mine) + [1] * other)
    together = aggregator(torch.cat([mine, theirs]), index)
    return float((alone[0] - together[0]).norm() / alone[0].norm())


@torch.no_grad()
def padding_numbers(channels: int = 16) -> tuple[list[float], list[float]]:
    """For PyG's LCM and for ours with the same weights, by the size of the other set."""
    torch.manual_seed(0)
    theirs = pyg.LCMAggregation(channels, channels).eval()
    ours = treefold.LCMAggregation.from_pyg(theirs)
    mine = torch.randn(5, channels)
    return tuple([moved(a, mine, size) for size in OTHER_SIZES] for a in (theirs, ours))


def padding_figure() -> Figure:
    """Why padding is wrong: another set in the batch changes the answer for mine."""
    theirs, ours = padding_numbers()
    figure = Figure(figsize=(6.4, 3.4))
    axes = figure.subplots()
    for values, colour, name in ((theirs, THEIRS, "PyG, padded"), (ours, OURS, "treefold, ragged")):
        axes.plot(OTHER_SIZES, values, "o-", color=colour, label=name)
        last = f"{values[-1]:.0%}"
        axes.annotate(last, (OTHER_SIZES[-1], values[-1]), (0, 8), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks(OTHER_SIZES, OTHER_SIZES)
    axes.set_ylim(-0.03, None)
    axes.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
    axes.set_xlabel("elements of another set in the same batch")
    axes.set_ylabel("change of the answer for mine")
    axes.set_title("a set of 5, the same weights", fontsize=11)
    axes.legend(frameon=False)
    return figure


def monoid_figure() -> Figure:
    """All products of the smallest monoid that knows the second smallest of 0, 1, 2 and 3."""
    task = SET_TASKS["second-minimum"](bits=2)
    exact = close(task.monoid, task.encode(torch.arange(4))).answering(task.answer)
    monoid = minimize(exact).monoid
    names = [" ".join(map(str, sorted(monoid.word(element)))) for element in range(len(monoid))]
    figure = Figure(figsize=(6.4, 5.6))
    axes = figure.subplots()
    axes.imshow(monoid.decode(monoid.table[1:, 1:]).numpy(), cmap="Blues", vmin=-1, vmax=6)
    for row, products in enumerate(monoid.table[1:, 1:].tolist()):
        for column, product in enumerate(products):
            axes.text(column, row, names[product], ha="center", va="center")
    places = range(len(monoid) - 1)
    axes.set_xticks(places, names[1:])
    axes.set_yticks(places, names[1:])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel("the darker, the larger the second smallest")
    return figure


FIGURES = {
    "fold-list": list_figure,
    "fold-tree": tree_figure,
    "brackets": bracketing_figure,
    "padding": padding_figure,
    "finite-monoid": monoid_figure,
}


def draw_all(folder: Path) -> None:
    """Write every picture into a folder; the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        for name, make in FIGURES.items():
            buffer = io.BytesIO()
            make().savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
            write_atomically(folder / f"{name}.svg", buffer.getvalue())


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "figures")
