"""`fold`, `evaluate` and `laws` take saved models: that of a run like the run itself."""

import json

import pytest
import torch

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

import pyarrow.parquet as pq
from distributed.trained import events, run_folder

from treefold import GatedSelection, Groups, LCMAggregation
from treefold.distributed import fold_table
from treefold.finite import FiniteMonoid
from treefold.lab.cli.app import app
from treefold.lab.experiments import load_fold, load_model


def says(capsys, *words):
    app([str(word) for word in words], result_action="return_value")
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("run") / "run")


def test_a_saved_run_is_taken_like_the_run(run, tmp_path, capsys):
    user, x = events(300, 5)
    pq.write_table(pa.table({"user": user.numpy(), "x": x.numpy()}), tmp_path / "in.parquet")
    assert says(capsys, "export", run, tmp_path / "model") == f"{tmp_path / 'model'}\n"
    for name, parameter in load_model(run).named_parameters():
        assert load_model(tmp_path / "model").get_parameter(name).equal(parameter)
    said = []
    for model in (run, tmp_path / "model"):
        out = tmp_path / f"{model.name}.parquet"
        table = [tmp_path / "in.parquet", "--key", "user", "--on", "x", "--out", out]
        folded = says(capsys, "fold", model, *table, "--decode").replace(str(out), "OUT")
        scored = says(capsys, "evaluate", model, "--sizes", "1-4,9")
        said.append([folded, scored, says(capsys, "laws", model), pq.read_table(out)])
    assert said[0] == said[1]
    assert "300 rows of 5 keys" in folded
    assert "associativity" in said[0][2]


@pytest.mark.parametrize("in_channels", [3, 4])
def test_vectors_are_folded_with_a_model_of_ones_own(in_channels, tmp_path, capsys):
    torch.manual_seed(0)
    project = torch.nn.Linear(3, 4) if in_channels == 3 else None
    model = LCMAggregation(4, "gated-selection", project=project)
    model.save_pretrained(tmp_path / "model")
    x = torch.randn(50, in_channels)
    column = pa.array(x.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"user": [*range(5)] * 10, "x": column}), tmp_path / "in.parquet")
    table = [tmp_path / "in.parquet", "--key", "user", "--on", "x", "--out", tmp_path / "o.parquet"]
    assert "50 rows of 5 keys" in says(capsys, "fold", tmp_path / "model", *table)
    states = torch.tensor(pq.read_table(tmp_path / "o.parquet")["state"].to_pylist())
    expected = model.eval().aggregate(x, Groups.from_index(torch.arange(50) % 5))
    torch.testing.assert_close(states, expected)
    assert "associativity" in says(capsys, "laws", tmp_path / "model")


def test_vectors_that_an_encoder_does_not_take_are_refused_and_so_are_states_for_rows(
    tmp_path, run
):
    column = pa.array(torch.randn(6, 4).tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"user": [1, 2] * 3, "x": column}), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match=r"expected integers from 0 to 255, .* states=True"):
        fold(load_fold(run), tmp_path)
    LCMAggregation(4, project=torch.nn.Linear(3, 4)).save_pretrained(tmp_path / "model")
    assert fold(tmp_path / "model", tmp_path).num_bad == 6  # of width 4, expected 3
    assert fold(tmp_path / "model", tmp_path, states=True, overwrite=True).num_rows == 6


def fold(model, folder, **options):
    where = folder / "in.parquet", folder / "out.parquet"
    return fold_table(model, *where, key="user", on="x", **options)


def test_laws_of_a_finite_monoid_are_all_its_products_and_its_merge_order_is_0(tmp_path, capsys):
    steps = torch.tensor([[0, 1], [1, 2], [2, 2]])
    parts = torch.tensor([-1, -1, 1]), torch.tensor([-1, 1, 1])
    table = torch.tensor([[0, 1, 2], [1, 2, 2], [2, 2, 2]])
    monoid = FiniteMonoid(torch.randn(3, 4), torch.tensor([0, 1]), steps, *parts, table)
    monoid.save_pretrained(tmp_path / "model")
    assert "commutative monoid" in says(capsys, "laws", tmp_path / "model")
    pq.write_table(pa.table({"user": [1, 2] * 3, "x": [0, 1, 1, 0, 1, 0]}), tmp_path / "in.parquet")
    summary = fold(tmp_path / "model", tmp_path)
    assert summary.stability.largest == 0
    assert str(summary.stability).startswith("0, all orders give the same")
    assert pq.read_table(tmp_path / "out.parquet")["state"].to_pylist() == [2, 1]


def test_what_has_no_task_is_not_evaluated(tmp_path, capsys):
    GatedSelection(4).save_pretrained(tmp_path)
    with pytest.raises(SystemExit):
        says(capsys, "evaluate", tmp_path)
    assert "holds a model without a task; give a run, or a saved run" in capsys.readouterr().err
    assert json.loads((tmp_path / "config.json").read_text())["arguments"] == {"channels": 4}
