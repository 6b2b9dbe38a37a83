"""The stability of a table is that of whole keys, and reported as unknown where it is."""

from collections import Counter

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `ray` is not installed")

import pyarrow.parquet as pq
from distributed.trained import CHANNELS, fresh_fold, run_folder

from treefold import Groups
from treefold.distributed import table_stability
from treefold.distributed.source import find_source
from treefold.distributed.stability import MOST_ROWS_PER_KEY, NUM_KEYS, sample_rows
from treefold.incremental import bracketing_stability
from treefold.lab.experiments import load_fold


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def sampled(fold, path, table, row_group_size=None):
    pq.write_table(table, path, row_group_size=row_group_size)
    return sample_rows(find_source(path, "user", "x", fold), "user", "x", fold)


def test_keys_that_come_in_turn_are_measured_with_all_their_rows(fold, tmp_path):
    turns = pa.table({"user": [*range(5000)] * 3, "x": [row % 256 for row in range(15_000)]})
    rows = sampled(fold, tmp_path / "in.parquet", turns, row_group_size=4000)
    assert (
        rows.group_by("user").aggregate([("x", "count")])["x_count"].to_pylist() == [3] * NUM_KEYS
    )
    found = table_stability(fold, rows, key="user", on="x")
    assert (found.num_keys, found.num_rows) == (NUM_KEYS, 3 * NUM_KEYS)
    assert float(found.distances.largest.min()) > 0
    assert "over 32 keys with two or more rows (96 rows)" in str(found)


def test_a_hot_key_is_cut_and_the_others_are_not(fold, tmp_path):
    hot = pa.table({"user": ["hot"] * 3000 + ["a", "b"] * 2, "x": [5] * 3004})
    rows = sampled(fold, tmp_path / "in.parquet", hot, row_group_size=700)
    counts = {"hot": MOST_ROWS_PER_KEY, "a": 2, "b": 2}
    assert Counter(rows["user"].to_pylist()) == counts


def test_the_stability_is_that_of_the_sets_themselves(fold):
    user, x = torch.tensor([2, 0, 2, 0, 2, 1]), torch.tensor([9, 8, 7, 6, 5, 4])
    sample = pa.table({"user": user.numpy(), "x": x.numpy()})
    found = table_stability(fold, sample, key="user", on="x").distances
    kept = user != 1  # one row has one tree
    groups = Groups.from_index(torch.tensor([0, 1, 0, 1, 0]))  # keys as they come
    draw = torch.Generator().manual_seed(0)
    states = fold.states(x[kept])
    expected = bracketing_stability(fold.operator, states, groups, 8, draw)
    torch.testing.assert_close(found.absolute, expected.absolute)


def test_rows_without_a_key_and_bad_rows_are_no_sets(fold, tmp_path):
    table = pa.table({"user": [None, None, 1, 1, 2, 2], "x": [3, 4, 5, None, 6, 7]})
    for sample in (table, sampled(fold, tmp_path / "in.parquet", table, row_group_size=1)):
        found = table_stability(fold, sample, key="user", on="x")
        assert (found.num_keys, found.num_rows) == (1, 2)


@pytest.mark.parametrize("keys", [[1, 2, 3], [None, None, None]])
def test_without_a_key_of_two_rows_nothing_is_measured_and_that_is_said(fold, tmp_path, keys):
    table = pa.table({"user": pa.array(keys, pa.int64()), "x": [3, 4, 5]})
    for sample in (table, sampled(fold, tmp_path / "in.parquet", table)):
        found = table_stability(fold, sample, key="user", on="x", decode=True)
        assert str(found) == "not measured: the sample has no key with two or more rows"
        assert (found.num_keys, found.changed) == (0, None)


def answers_of(fold):
    return lambda states: fold.answers(states).double()[:, None]


def test_the_share_of_answers_that_change_is_told_when_decoding(fold):
    user, x = torch.arange(200) % 20, torch.arange(200)
    sample = pa.table({"user": user.numpy(), "x": x.numpy()})
    found = table_stability(fold, sample, key="user", on="x", decode=True)
    groups, draw = Groups.from_index(user), torch.Generator().manual_seed(0)
    moved = bracketing_stability(
        fold.operator, fold.states(x), groups, 8, draw, decode=answers_of(fold)
    )
    assert found.changed == float((moved.absolute > 0).double().mean())
    assert 0 < found.changed < 1
    assert f"{found.changed:.2%} of answers change with the tree" in str(found)
    same = pa.table({"user": [1, 1, 2, 2], "x": [3, 3, 4, 4]})  # one tree up to commutativity
    assert table_stability(fold, same, key="user", on="x", decode=True).changed == 0


def test_a_sample_of_states_and_a_run_s_folder_do_as_well(tmp_path):
    states = pa.array(torch.randn(6, CHANNELS).tolist(), pa.list_(pa.float32()))
    sample = pa.table({"user": pa.array(["a", "b"] * 3).dictionary_encode(), "x": states})
    found = table_stability(load_fold(run_folder(tmp_path / "run")), sample, key="user", on="x")
    assert (found.num_keys, found.num_rows) == (2, 6)


def test_files_whose_columns_have_other_types_are_sampled_together(fold, tmp_path):
    columns = {"1": pa.array([1], pa.int8()), "2": pa.array([1], pa.int64()), "3": pa.nulls(1)}
    for name, column in columns.items():
        table = pa.table({"user": pa.array([7]), "x": column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    rows = sample_rows(find_source(tmp_path, "user", "x", fold), "user", "x", fold)
    assert rows["user"].to_pylist() == [7, 7]


def test_a_damaged_file_is_named(fold, tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"user": [*range(999)], "x": [3] * 999}), path)
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)  # pages are damaged, and the footer is not
    path.write_bytes(data)
    source = find_source(path, "user", "x", fold)
    with pytest.raises(ValueError, match=r"in.parquet cannot be read as Parquet: ."):
        sample_rows(source, "user", "x", fold)
