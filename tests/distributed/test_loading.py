"""A trained run as a fold: its operator, its states and its answers."""

import pytest
import torch

pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

from distributed.trained import events, run_folder

import treefold
from treefold import Groups, plan_tree, tree_reduce
from treefold.lab.experiments import load_fold
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.loading import best_model, experiment_of, fold_of
from treefold.lab.networks import SetNetwork
from treefold.lab.runs import Record


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder(tmp_path_factory.mktemp("run") / "run")


@pytest.fixture(scope="module")
def fold(run):
    return load_fold(run)


def test_a_run_its_checkpoints_and_one_of_them_are_the_same_model(run, fold):
    checkpoints = run / "checkpoints"
    (best,) = checkpoints.glob("best-*.safetensors")
    for path in (str(run), checkpoints, best):
        assert torch.equal(load_fold(path).table, fold.table)


def test_models_without_an_operator_are_refused(tmp_path):
    with pytest.raises(ValueError, match="second-minimum/sum has no learned operator"):
        load_fold(run_folder(tmp_path / "sum", "sum"))


def test_the_answers_are_those_of_the_network(run, fold):
    user, x = events(60, 6)
    groups = Groups.from_index(user)
    logits = best_model(run, runner_of(experiment_of(Record.read(run)), 0))(x, groups)
    states = tree_reduce(fold.operator, fold.states(x)[groups.order], plan_tree(groups.sizes))
    torch.testing.assert_close(fold.fold(x, groups), states)
    bits = (logits > 0).long()
    assert fold.answers(states).tolist() == (bits << torch.arange(bits.shape[1])).sum(1).tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_of_any_precision_folds_in_float32(dtype):
    model = SetNetwork(8, 8, 8, treefold.aggregator("gated-selection", 8)).to(dtype)
    fold = fold_of(model)
    states = fold.fold(torch.tensor([3, 1, 4]), Groups.from_sizes([3]))
    assert fold.table.dtype == states.dtype == torch.float32
    assert fold.answers(states).shape == (1,)
