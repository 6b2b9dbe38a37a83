"""Tables folded on this machine: the trees that the page names, whatever memory there is."""

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import pyarrow.parquet as pq
from distributed.trained import CHANNELS, events, fresh_fold, run_folder

from treefold import GatedSelection, Groups, LCMAggregation
from treefold.algebra import CountModulo
from treefold.distributed import ModelFold, fold_table
from treefold.finite import close
from treefold.lab.cli.folding import as_bytes, fold_file

BLOCK = 100


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    for module in ("source", "partial", "merging"):
        monkeypatch.setattr(f"treefold.distributed.{module}.ROWS_PER_BLOCK", BLOCK)


@pytest.fixture(scope="module")
def fold():
    return fresh_fold()


def by_key(table, column="state"):
    return dict(zip(table["user"].to_pylist(), table[column].to_pylist(), strict=True))


def write(path, user, x, row_group_size=None):
    x = pa.array(x.tolist(), pa.list_(pa.float32())) if x.dim() == 2 else x.numpy()
    pq.write_table(pa.table({"user": user.numpy(), "x": x}), path, row_group_size=row_group_size)
    return path


def in_memory(fold, user, x):
    """Rows of a block are folded by key, and a key's states in the order of blocks."""
    block = torch.arange(len(user)) // BLOCK
    runs, of_row = torch.unique(torch.stack([user, block]), dim=1, return_inverse=True)
    states = fold.fold(x, Groups.from_index(of_row))
    keys, of_run = torch.unique(runs[0], return_inverse=True)
    return keys, fold.merge(states, Groups.from_index(of_run))


@pytest.mark.parametrize("num_users", [1, 4, 150, 100_000], ids="{} users".format)
@pytest.mark.parametrize("memory", [1 << 30, 20_000], ids="{} bytes".format)
def test_a_table_is_folded_over_the_trees_that_are_documented(fold, tmp_path, num_users, memory):
    user, x = events(1234, num_users)
    source, out = write(tmp_path / "in.parquet", user, x, 77), tmp_path / "out.parquet"
    summary = fold_table(fold, source, out, key="user", on="x", memory=memory, decode=True)
    keys, states = in_memory(fold, user, x)
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (len(keys), 1234, 0)
    found = pq.read_table(out)
    assert found.schema.field("state").type == pa.list_(pa.float32(), CHANNELS)
    assert found["user"].to_pylist() == keys.tolist()
    torch.testing.assert_close(torch.tensor(found["state"].to_pylist()), states)
    assert found["num_rows"].to_pylist() == torch.unique(user, return_counts=True)[1].tolist()
    written = torch.tensor(found["state"].to_pylist())
    assert found["answer"].to_pylist() == fold.answers(written).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_a_table_of_one_block_is_folded_as_in_a_layer(tmp_path):
    module = LCMAggregation(CHANNELS, "gated-selection", project=torch.nn.Linear(3, CHANNELS))
    user, x = torch.randint(0, 9, (BLOCK,)), torch.randn(BLOCK, 3)
    source, out = write(tmp_path / "in.parquet", user, x), tmp_path / "out.parquet"
    fold_table(module, source, out, key="user", on="x")
    found = torch.tensor(pq.read_table(out)["state"].to_pylist())
    torch.testing.assert_close(found, module.eval()(x, user).detach())


def test_states_are_folded_again_when_they_are_said_to_be_states(fold, tmp_path):
    user, x = events(500, 60)
    once, twice = tmp_path / "once.parquet", tmp_path / "twice.parquet"
    fold_table(fold, write(tmp_path / "in.parquet", user, x), once, key="user", on="x")
    states = pq.read_table(once)
    pq.write_table(states.set_column(0, "team", pa.array([7] * 60)).drop("num_rows"), once)
    with pytest.raises(ValueError, match="if these are states that this model has made, say so"):
        fold_table(fold, once, twice, key="team", on="state")
    fold_table(fold, once, twice, key="team", on="state", states=True)
    (row,) = pq.read_table(twice).to_pylist()
    expected = fold.merge(torch.tensor(states["state"].to_pylist()), Groups.from_sizes([60]))
    torch.testing.assert_close(torch.tensor([row["state"]]), expected)
    assert row["num_rows"] == 60


def test_rows_that_repeat_a_key_often_become_states_and_others_travel_as_they_are(tmp_path):
    fold = ModelFold.of(GatedSelection(CHANNELS))
    user = torch.cat([torch.zeros(350), torch.arange(350)]).long()[torch.randperm(700)]
    x = torch.randn(700, CHANNELS)
    source, out = write(tmp_path / "in.parquet", user, x), tmp_path / "out.parquet"
    fold_table(fold, source, out, key="user", on="x", memory=1)
    keys, states = in_memory(fold, user, x)
    found = pq.read_table(out)
    assert found["user"].to_pylist() == keys.tolist()
    torch.testing.assert_close(torch.tensor(found["state"].to_pylist()), states)


def test_a_finite_monoid_gives_the_same_elements_in_any_order_and_says_so(tmp_path):
    counts = close(CountModulo(5), torch.arange(5))
    user, x = events(1000, 7)
    source = write(tmp_path / "in.parquet", user, x % 5)
    summary = fold_table(counts, source, tmp_path / "out.parquet", key="user", on="x")
    assert summary.stability.largest == 0
    assert str(summary.stability).startswith("0, all orders give the same")
    elements = torch.tensor(pq.read_table(tmp_path / "out.parquet")["state"].to_pylist())
    totals = torch.zeros(7).long().index_add(0, user, x % 5) % 5
    assert torch.equal(counts.codes[elements], totals)


def test_files_may_be_named_by_strings(fold, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"user": [1, 2, 1], "x": [3, 4, 5]}), "e.parquet")
    summary = fold_table(fold, "e.parquet", "u.parquet", key="user", on="x")
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (2, 3, 0)
    assert by_key(pq.read_table("u.parquet"), "num_rows") == {1: 2, 2: 1}


@pytest.mark.parametrize("memory", [1 << 30, 1], ids="{} bytes".format)
def test_bad_rows_are_counted_and_named_with_their_position(fold, tmp_path, memory):
    wide = [0.5] * CHANNELS
    rows = [wide, None, [0.5], [float("nan"), *wide[1:]], wide, [None, *wide[1:]], wide]
    users = ["a", "a", "b", "b", "a", "c", None]
    (tmp_path / "in").mkdir()
    table = pa.table({"user": users, "x": pa.array(rows, pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "in" / "1.parquet", row_group_size=3)
    pq.write_table(table.slice(0, 1), tmp_path / "in" / "2.parquet")
    out = tmp_path / "out.parquet"
    summary = fold_table(
        fold, tmp_path / "in", out, key="user", on="x", decode=True, states=True, memory=memory
    )
    assert (summary.num_keys, summary.num_rows, summary.num_bad) == (4, 3, 5)
    named = [(line["row"], line["user"], line["problem"]) for line in summary.bad]
    assert named == [
        (1, "a", "null"),
        (2, "b", f"width 1, expected {CHANNELS}"),
        (3, "b", "nan at place 0, expected a number"),
        (5, "c", "nan at place 0, expected a number"),
        (6, None, "null key"),
    ]
    assert all(line["file"].endswith("1.parquet") for line in summary.bad)
    result = pq.read_table(out)
    assert by_key(result, "num_bad") == {"a": 1, "b": 2, "c": 1, None: 1}
    assert by_key(result, "num_rows") == {"a": 3, "b": 0, "c": 0, None: 0}
    assert by_key(result)["b"] is None
    assert by_key(result, "answer")["b"] is None
    assert pq.read_table(tmp_path / "out.bad.parquet").to_pylist() == summary.bad


def test_rows_whose_key_is_null_or_no_number_are_bad_and_split_no_other_key(fold, tmp_path):
    user = [1.0, None, 3.0, float("nan"), 5.0, 1.0, 3.0]
    table = pa.table({"user": user, "x": [9] * 7})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    out = tmp_path / "out.parquet"
    summary = fold_table(fold, tmp_path / "in.parquet", out, key="user", on="x")
    result = pq.read_table(out)
    assert result.schema.names == ["user", "state", "num_rows", "num_bad"]
    assert by_key(result, "num_rows") == {1: 2, 3: 2, 5: 1, None: 0}
    found = [(line["row"], line["user"], line["problem"]) for line in summary.bad]
    assert found == [(1, None, "null key"), (3, None, "NaN key")]


def test_a_table_of_null_keys_or_null_values_has_only_bad_rows(fold, tmp_path):
    for name, keys, column in [("keys", pa.nulls(2), [1, 2]), ("x", [1, 1], pa.nulls(2))]:
        source, out = tmp_path / f"{name}.parquet", tmp_path / f"{name}.out.parquet"
        pq.write_table(pa.table({"user": keys, "x": column}), source, row_group_size=1)
        summary = fold_table(fold, source, out, key="user", on="x", decode=True)
        assert (summary.num_keys, summary.num_rows, summary.num_bad) == (1, 0, 2)
        assert str(summary.stability).startswith("not measured")
        (row,) = pq.read_table(out).to_pylist()
        assert (row["state"], row["answer"], row["num_bad"]) == (None, None, 2)


def test_categories_are_keys_and_bad_rows_beyond_a_hundred_of_a_key_are_counted(tmp_path, capsys):
    users = pa.array(["a", "b"] * 150).dictionary_encode()
    x = [300 if row % 2 else 3 for row in range(300)]  # those of b are bad
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"user": users, "x": x}), source, row_group_size=100)
    run = run_folder(tmp_path / "run")
    fold_file(run, source, out, "1GB", key="user", on="x")
    said = capsys.readouterr().out
    assert "150 rows of 2 keys folded" in said
    assert "150 rows could not be folded" in said
    assert "50 of them are not in that file: it names at most 100 of a key" in said
    assert said.count("merge order: ") == 1
    assert by_key(pq.read_table(out), "num_bad") == {"a": 0, "b": 150}
    assert pq.read_table(tmp_path / "out.bad.parquet").num_rows == 100


def test_progress_is_told_in_rows_of_each_stage(fold, tmp_path):
    user, x = events(1234, 150)
    done = {"read": 0, "folded": 0}

    def watch(stage, rows, total):
        assert total == 1234
        done[stage] += rows

    source = write(tmp_path / "in.parquet", user, x)
    fold_table(fold, source, tmp_path / "out.parquet", key="user", on="x", watch=watch)
    assert done == {"read": 1234, "folded": 1234}


@pytest.mark.parametrize(
    ("text", "count"),
    [("2GB", 2 << 30), ("500 MB", 500 << 20), ("1.5gib", 3 << 29), ("1000", 1000)],
)
def test_memory_is_given_as_a_person_writes_it(text, count):
    assert as_bytes(text) == count


@pytest.mark.parametrize("text", ["much", "0", "-1GB", "GB"])
def test_other_words_for_memory_are_refused(text):
    with pytest.raises(ValueError, match="expected a size, such as 2GB"):
        as_bytes(text)


def test_models_that_have_no_operator_or_no_answers_are_refused(tmp_path):
    pq.write_table(pa.table({"user": [1], "x": [[0.5] * 4]}), tmp_path / "in.parquet")
    files = tmp_path / "in.parquet", tmp_path / "out.parquet"
    with pytest.raises(ValueError, match="expected an LCMAggregation, an operator, a Finite"):
        fold_table(torch.nn.Linear(2, 2), *files, key="user", on="x")
    with pytest.raises(ValueError, match="answers nothing: it has states alone"):
        fold_table(GatedSelection(4), *files, key="user", on="x", decode=True)
