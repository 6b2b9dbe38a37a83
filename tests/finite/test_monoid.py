"""A finite monoid at work: it folds, streams and updates, and answers do not depend on order."""

import pytest
import torch
from finite.machines import SECOND, TASKS, closed

import treefold
from treefold import plan_tree, tree_reduce
from treefold.algebra import MONOID_LAWS, Monoid, draw_for
from treefold.finite import FiniteMonoid, minimize, spelled
from treefold.incremental import FoldTree, StreamingFold

SIZES = torch.tensor([5, 0, 1, 9, 2])


def values(seed=0):
    return torch.randint(0, 8, (int(SIZES.sum()),), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["table", "steps", "quotient"])
def finite(request):
    if request.param == "quotient":
        return minimize(closed(SECOND)).monoid
    return closed(SECOND, trees=request.param == "table")


def test_it_is_a_monoid_whose_laws_hold(finite):
    assert isinstance(finite, Monoid)
    samples = torch.arange(len(finite))
    for law in MONOID_LAWS:
        law.assert_holds(
            finite, *draw_for(law, samples, None, 200, torch.Generator().manual_seed(1))
        )


@pytest.mark.parametrize("bracketing", ["balanced", "carry", "random"])
def test_folds_answer_as_the_task_does_over_any_tree(finite, bracketing):
    folded = tree_reduce(finite, finite.encode(values()), plan_tree(SIZES, bracketing))
    expected = SECOND.label(values(), SIZES).answers
    occupied = SIZES > 0
    assert torch.equal(finite.decode(folded)[occupied], expected[occupied])
    assert folded[1] == 0


def test_streams_and_updates_come_to_the_fold_to_the_bit(finite):
    x, sets = finite.encode(values()), torch.arange(len(SIZES)).repeat_interleave(SIZES)
    expected = tree_reduce(finite, x, plan_tree(SIZES))
    stream = StreamingFold(finite, num_sets=len(SIZES))
    for rows, places in zip(x.split(4), sets.split(4), strict=True):
        stream.feed(rows, places)
    assert torch.equal(stream.value(), expected)
    tree = FoldTree(finite, x, treefold.Groups.from_sizes(SIZES))
    handles = tree.insert(finite.encode(torch.tensor([0, 1])), torch.tensor([1, 1]))
    assert int(finite.decode(tree.value()[1])) == 1
    tree.remove(handles)
    assert torch.equal(tree.value(), expected)


@pytest.mark.parametrize("task", TASKS)
def test_saved_and_loaded_it_is_the_same(task, tmp_path):
    for finite in (closed(task), closed(task, trees=False)):
        finite.save_pretrained(tmp_path / "monoid")
        loaded = FiniteMonoid.from_pretrained(tmp_path / "monoid")
        for name in ("codes", "values", "steps", "left", "right", "answers"):
            assert torch.equal(getattr(loaded, name), getattr(finite, name))
        assert (loaded.table is None) is (finite.table is None)
        if loaded.table is not None:
            assert torch.equal(loaded.table, finite.table)


def test_what_was_never_saved_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        FiniteMonoid.from_pretrained(tmp_path)


def test_elements_of_any_integer_type_and_shape_are_looked_up(finite):
    a = torch.arange(8, dtype=torch.int16).view(2, 4)
    assert finite(a, a.flip(0)).dtype == torch.int16
    assert torch.equal(finite(a, a.flip(0)).long(), finite(a.long(), a.flip(0).long()))


def test_trees_are_spelled_for_people():
    assert spelled(((3, 5), 7)) == "((3 ⊕ 5) ⊕ 7)"
    assert spelled(None) == "nothing"


def test_a_stream_of_keys_is_folded_in_place_each_key_in_its_own_order():
    finite = closed(SECOND)
    generator = torch.Generator().manual_seed(0)
    sets = torch.randint(0, 7, (200,), generator=generator)
    values = torch.randint(0, 8, (200,), generator=generator)
    states = torch.zeros(8, dtype=torch.int32)
    for chunk in torch.arange(200).split(64):
        finite.feed(states, sets[chunk], values[chunk])
    expected = [sorted([*values[sets == key].tolist(), 7, 7])[1] for key in range(7)]
    assert finite.decode(states[:7]).tolist() == expected
    assert states[7] == 0
