"""`treefold demo`: trained models at work, live, in a table and on a page; nothing is trained."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from treefold.lab.cli.errors import as_one_line
from treefold.lab.cli.options import Debug

if TYPE_CHECKING:
    from treefold.lab.report import Section, Table

LEARNED, PROVED = "trained/second-minimum", "trained/second-minimum-5"
SIZES, SHOWN = "2,4,8,16,32,64,128,256,512,1024", (16, 64, 256, 1024)
MANY = 1_000_000


def demo(
    *,
    out: Annotated[Path, Parameter(help="Where the page goes.")] = Path("runs/demo-page"),
    debug: Debug = False,
) -> None:
    """Show what trained models can do, in less than a minute; nothing is trained.

    One finds the second smallest of sets sixty times as large as it has seen. Another is proved
    right for sets of any size. A large set changes, and is not folded again. Ends with a page.
    """
    with as_one_line(debug):
        from treefold.lab.report import Section, write_page

        about = (
            f"Two models that come with treefold, {LEARNED} and {PROVED}, were trained on sets of "
            "at most 16. All numbers here were computed just now."
        )
        parts = [_generalises(), _is_proved(), _changes()]
        sentence = "\n".join(part.sentence for part in parts)
        write_page(
            Section("Learned monoids at work", about, sentence, parts=parts), out / "demo.html"
        )


def _generalises() -> "Section":
    """Accuracy on sets far larger than in training, next to the best constant answer."""
    import torch

    from treefold.lab.experiments import experiment_of, load_model, run_of, runner_of
    from treefold.lab.report import Figure, Line, Section
    from treefold.lab.runs import Record, Stat
    from treefold.lab.tasks import best_constant

    experiment = experiment_of(Record.read(run_of(Path(LEARNED))))
    runner, model, cpu = runner_of(experiment, 0), load_model(LEARNED), torch.device("cpu")
    sizes, task = [int(size) for size in SIZES.split(",")], experiment.recipe()["task"]
    found = {"best constant answer": [best_constant(task, size) or 0.0 for size in sizes]}
    for name, kind in (("sets of any integers", ""), ("all answers as likely", "balanced:")):
        found[name] = [runner.score(model, case, cpu) for case in runner.cases(kind + SIZES)]
    looks = (("#8a8f98", "dotted"), ("#9b4dca", "solid"), ("#0a7abf", "solid"))
    lines = [
        Line(name, {x: Stat(y, y, y) for x, y in zip(sizes, ys, strict=True)}, *look)
        for (name, ys), look in zip(found.items(), looks, strict=True)
    ]
    figure = Figure(
        *("demo", "Accuracy against set size", "", "integers in the set", "accuracy"),
        *(lines, "x", (-0.02, 1.03), (16, "largest in training: 16")),
    )
    columns = {"integers in the set": [f"{size:,}" for size in SHOWN]}
    for name, ys in found.items():
        columns[name] = [f"{ys[sizes.index(size)]:.3f}" for size in SHOWN]
    near, far = (found["sets of any integers"][sizes.index(size)] for size in (64, sizes[-1]))
    said = (
        f"Trained on sets of at most 16, it finds the second smallest of 64 integers {near:.0%} of "
        f"the time. Of {sizes[-1]:,} it finds {far:.0%}, where the best constant answer has "
        f"{found['best constant answer'][-1]:.0%}; if all answers are as likely, "
        f"{found['all answers as likely'][-1]:.0%}."
    )
    tables = [_table("The second smallest of a set of 8-bit integers", columns)]
    return Section("Larger sets than in training", "", said, headline=figure, tables=tables)


def _is_proved() -> "Section":
    """A certificate made anew, and a set of a million folded by look-up."""
    import torch

    from treefold.fold import plan_tree, tree_reduce
    from treefold.lab.experiments import certify_network, experiment_of, load_model, run_of
    from treefold.lab.report import Section
    from treefold.lab.runs import Record

    task = experiment_of(Record.read(run_of(Path(PROVED)))).task
    proof, monoid = certify_network(cast(Any, load_model(PROVED)), task)
    if not proof.holds:
        raise RuntimeError(f"the proof of {PROVED} fails on this machine; please report it")
    values = torch.randint(0, task.num_values, (MANY,), generator=torch.Generator().manual_seed(0))
    began, sizes, rows = time.perf_counter(), torch.tensor([MANY]), monoid.encode(values)
    answers = {
        int(monoid.decode(cast(torch.Tensor, tree_reduce(monoid, rows, plan_tree(sizes, trees)))))
        for trees in ("balanced", "random")
    }
    seconds = time.perf_counter() - began
    right = answers == {int(task.label(values, sizes).answers)}
    columns = {
        "states": [f"{proof.elements:,}"],
        "products and answers compared": [f"{proof.checked:,}"],
        "seconds": [f"{proof.seconds:.1f}"],
    }
    said = (
        f"A learned operator with {proof.elements:,} states is proved right for every set of any "
        f"size, merged in any order; {MANY:,} integers, over two trees, took {seconds:.1f} seconds "
        f"and came to {'the right answer' if right else 'a wrong answer'} twice."
    )
    return Section("A proof", "", said, tables=[_table("Every product, checked", columns)])


def _changes() -> "Section":
    """An element comes and goes; the rest of the set is not folded again."""
    import torch

    from treefold.fold import Groups
    from treefold.incremental import FoldTree
    from treefold.lab.experiments import load_fold
    from treefold.lab.report import Section

    fold, draw = load_fold(LEARNED), torch.Generator().manual_seed(0)
    assert fold.table is not None
    rows = fold.table[torch.randint(0, len(fold.table), (20_000,), generator=draw)].detach()
    with torch.no_grad():
        began = time.perf_counter()
        tree = FoldTree(fold.operator, rows, Groups.from_sizes(torch.tensor([len(rows)])))
        whole, began = time.perf_counter() - began, time.perf_counter()
        for row in rows[:20]:
            tree.remove(tree.insert(row[None]))
            tree.value()
        update = (time.perf_counter() - began) / 40
    columns = {
        "fold the whole set": [f"{1e3 * whole:.1f} ms"],
        "update": [f"{1e3 * update:.2f} ms"],
    }
    said = (
        f"When an element comes to a set of {len(rows):,} or goes, its answer takes "
        f"{whole / update:.0f} times less time than folding the set again."
    )
    return Section("A set that changes", "", said, tables=[_table("Time", columns)])


def _table(title: str, columns: dict[str, list[str]]) -> "Table":
    from treefold.lab.report import Cell, Table

    return Table(title, {head: [Cell(words) for words in cells] for head, cells in columns.items()})
