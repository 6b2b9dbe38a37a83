"""Changes by another merge order: once, in the unit of what is written, alike for one table."""

from collections import Counter

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import pyarrow.parquet as pq
from distributed.trained import CHANNELS, events, fresh_fold, run_folder

from treefold import Groups, LCMAggregation, plan_tree, tree_reduce
from treefold.algebra import Max, Sum
from treefold.distributed import ModelFold, fold_table, table_stability
from treefold.distributed.partial import SAMPLED_KEYS, SAMPLED_ROWS, fold_block, joined_samples
from treefold.distributed.source import find_source
from treefold.incremental import bracketing_stability
from treefold.lab.experiments import load_fold


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def sampled(fold, path, table, row_group_size=None):
    pq.write_table(table, path, row_group_size=row_group_size)
    source = find_source(path, "user", "x", fold)
    blocks = [block for piece in source.pieces(1) for block in source.blocks(piece)]
    return joined_samples([fold_block(fold, block)[1] for block in blocks])


def test_keys_that_come_in_turn_are_measured_with_all_their_rows(fold, tmp_path, monkeypatch):
    monkeypatch.setattr("treefold.distributed.source.ROWS_PER_BLOCK", 1000)
    turns = pa.table({"user": [*range(5000)] * 3, "x": [row % 256 for row in range(15_000)]})
    rows = sampled(fold, tmp_path / "in.parquet", turns, row_group_size=4000)
    assert set(Counter(rows["key"].to_pylist()).values()) == {3}
    found = table_stability(fold, rows, key="key", on="value")
    assert (found.num_keys, found.num_rows) == (SAMPLED_KEYS, 3 * SAMPLED_KEYS)
    assert found.largest == float(found.distances.largest.max()) > 0
    assert f"({SAMPLED_KEYS} keys with two or more rows, {3 * SAMPLED_KEYS} rows)" in str(found)


def test_a_hot_key_is_cut_and_the_others_are_not(fold, tmp_path):
    hot = pa.table({"user": ["hot"] * 3000 + ["a", "b"] * 2, "x": [5] * 3004})
    rows = sampled(fold, tmp_path / "in.parquet", hot, row_group_size=700)
    assert Counter(rows["key"].to_pylist()) == {"hot": SAMPLED_ROWS, "a": 2, "b": 2}


@pytest.mark.parametrize("decode", [False, True])
def test_it_is_the_same_for_the_same_table_however_that_is_cut(fold, tmp_path, monkeypatch, decode):
    user, x = events(3000, 40)
    table = pa.table({"user": user.numpy(), "x": x.numpy()})
    found = set()
    for rows_per_block, row_group_size, files in [(1000, 3000, 1), (64, 500, 1), (700, 100, 3)]:
        monkeypatch.setattr("treefold.distributed.source.ROWS_PER_BLOCK", rows_per_block)
        source = tmp_path / f"{rows_per_block}"
        source.mkdir()
        for number in range(files):
            part = table.slice(number * 3000 // files, 3000 // files)
            pq.write_table(part, source / f"{number}.parquet", row_group_size=row_group_size)
        out = tmp_path / f"{rows_per_block}.parquet"
        summary = fold_table(fold, source, out, key="user", on="x", decode=decode)
        found.add(str(summary.stability))
    (said,) = found
    assert ("% change with another order" if decode else "states are typically") in said


def test_the_stability_is_that_of_the_sets_themselves(fold):
    user, x = torch.tensor([2, 0, 2, 0, 2, 1]), torch.tensor([9, 8, 7, 6, 5, 4])
    sample = pa.table({"user": user.numpy(), "x": x.numpy()})
    found = table_stability(fold, sample, key="user", on="x").distances
    draw = torch.Generator().manual_seed(0)
    states = fold.states(torch.tensor([8, 6, 9, 7, 5]))  # key by key; one row has one tree
    expected = bracketing_stability(fold.operator, states, Groups.from_sizes([2, 3]), 8, draw)
    torch.testing.assert_close(found.absolute, expected.absolute)


def test_rows_without_a_key_and_bad_rows_are_no_sets(fold, tmp_path):
    table = pa.table({"user": [None, None, 1, 1, 2, 2], "x": [3, 4, 5, None, 6, 7]})
    found = table_stability(fold, table, key="user", on="x")
    assert (found.num_keys, found.num_rows) == (1, 2)
    rows = sampled(fold, tmp_path / "in.parquet", table, row_group_size=1)
    assert rows.to_pydict() == {"key": [1, 2, 2], "value": [5, 6, 7]}


@pytest.mark.parametrize("keys", [[1, 2, 3], [None, None, None]])
@pytest.mark.parametrize("decode", [False, True])
def test_without_a_key_of_two_rows_nothing_is_measured_and_that_is_said(fold, keys, decode):
    table = pa.table({"user": pa.array(keys, pa.int64()), "x": [3, 4, 5]})
    found = table_stability(fold, table, key="user", on="x", decode=decode)
    assert str(found) == "not measured: no key of the sample has two or more rows"
    assert (found.num_keys, found.changed) == (0, 0)


def test_of_answers_it_is_the_share_that_changes(fold):
    user, x = torch.arange(200) % 20, torch.arange(200)
    sample = pa.table({"user": user.numpy(), "x": x.numpy()})
    found = table_stability(fold, sample, key="user", on="x", decode=True)
    groups, draw = Groups.from_index(user), torch.Generator().manual_seed(0)
    states = fold.states(x)[groups.order]
    written, changed = fold.answers(fold.fold(x, groups)), []
    whole = Groups.from_sizes(groups.sizes)
    for _ in range(8):
        plan = plan_tree(groups.sizes, "random", draw)
        other = tree_reduce(fold.operator, states[whole.shuffled(draw).order], plan)
        changed.append((fold.answers(other) != written).double().mean())
    assert found.changed == found.largest == pytest.approx(float(sum(changed)) / 8)
    assert 0 < found.changed < 1
    assert str(found).startswith(f"{found.changed:.2%} change with another order")
    same = pa.table({"user": [1, 1, 2, 2], "x": [3, 3, 4, 4]})  # one tree up to commutativity
    found = table_stability(fold, same, key="user", on="x", decode=True)
    assert str(found).startswith("0, all orders give the same (2 keys")


@pytest.mark.parametrize("monoid", [Sum(), Max()])
def test_of_an_exact_monoid_it_is_zero_by_definition(monoid):
    rows = (10 ** torch.linspace(-8, 8, 60)).view(20, 3)  # sums of these are rounded
    vectors = pa.array(rows.tolist(), pa.list_(pa.float32()))
    sample = pa.table({"user": [1, 2] * 10, "x": vectors})
    found = table_stability(LCMAggregation(3, monoid), sample, key="user", on="x")
    assert found.largest == 0
    assert str(found) == "0, all orders give the same (2 keys with two or more rows, 20 rows)"


def test_a_sample_of_states_and_a_run_s_folder_do_as_well(tmp_path):
    states = pa.array(torch.randn(6, CHANNELS).tolist(), pa.list_(pa.float32()))
    sample = pa.table({"user": pa.array(["a", "b"] * 3).dictionary_encode(), "x": states})
    fold = load_fold(run_folder(tmp_path / "run")).takes_states()
    assert isinstance(fold, ModelFold)
    found = table_stability(fold, sample, key="user", on="x")
    assert (found.num_keys, found.num_rows) == (2, 6)
