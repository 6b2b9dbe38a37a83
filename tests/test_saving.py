"""A saved model is the model: every kind of it, in a folder and on the hub, and no other."""

import copy
import json
import pickle
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
from torch import nn

from treefold import BinaryGRU, GatedSelection, Groups, LCMAggregation, Operator
from treefold.aggr import AGGREGATORS, aggregator
from treefold.algebra import Sum
from treefold.finite import FiniteMonoid
from treefold.operators import OPERATORS, Conjugated, CouplingFlow, FiniteCounters
from treefold.saving import load

LCMS = [name for name in AGGREGATORS if isinstance(aggregator(name, 8), LCMAggregation)]


def answers(module):
    torch.manual_seed(1)
    x, groups = torch.randn(40, 8), Groups.from_sizes([7, 0, 1, 32])
    with torch.no_grad():
        if isinstance(module, LCMAggregation):
            return module.eval().aggregate(x.to(next(module.parameters()).dtype), groups)
        return module.eval()(x[:20], x[20:])


@pytest.mark.parametrize("name", LCMS)
def test_every_learned_aggregator_is_what_it_was(name, tmp_path):
    torch.manual_seed(0)
    module = aggregator(name, 8)
    module.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    again = LCMAggregation.from_pretrained(tmp_path)
    assert not again.training
    assert answers(again).equal(answers(module))
    for option in ("laws", "bracketing", "eval_bracketing", "shuffle", "sampling", "channels"):
        assert str(getattr(again, option)) == str(getattr(module, option))


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_what_it_was(name, tmp_path):
    torch.manual_seed(0)
    module = OPERATORS[name](8)
    module.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert type(again) is type(module)
    assert answers(again).equal(answers(module))


@pytest.mark.parametrize(
    "module",
    [
        LCMAggregation(8, GatedSelection(8, 4, stretch=0.1), project=nn.Linear(8, 8, bias=False)),
        LCMAggregation(8, project=nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())),
        LCMAggregation(8, eval_bracketing="carry", associativity=0.5).double(),
        Conjugated(Sum(), CouplingFlow(8, 2, 5), 8),
        FiniteCounters(8, ((2, 1), (0, 5))),
    ],
    ids=["operator", "sequential", "float64", "conjugated", "counters"],
)
def test_what_parts_were_given_is_part_of_it(module, tmp_path):
    module.save_pretrained(tmp_path)
    again = type(module).from_pretrained(tmp_path)
    assert answers(again).equal(answers(module))
    assert {name: p.dtype for name, p in again.named_parameters()} == {
        name: p.dtype for name, p in module.named_parameters()
    }


def test_a_model_that_was_copied_or_loaded_can_be_saved_again(tmp_path):
    module = LCMAggregation(8, "gated-selection", operator_options={"stretch": 0.1})
    for number, each in enumerate([copy.deepcopy(module), pickle.loads(pickle.dumps(module))]):
        each.save_pretrained(tmp_path / str(number))
        again = LCMAggregation.from_pretrained(tmp_path / str(number))
        again.save_pretrained(tmp_path / "again")
        assert answers(LCMAggregation.from_pretrained(tmp_path / "again")).equal(answers(module))
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["class"] == "LCMAggregation"
    assert config["arguments"]["operator_options"] == {"stretch": 0.1}


class Halving(Operator):
    def __init__(self, channels, factor):
        super().__init__(channels)
        self.factor, self.identity = factor, self.learned_identity()

    def forward(self, a, b):
        return (a + b) * self.factor


def test_an_operator_of_ones_own_is_loaded_where_its_class_is_given(tmp_path):
    LCMAggregation(8, Halving(8, factor=0.25)).save_pretrained(tmp_path)
    again = LCMAggregation.from_pretrained(tmp_path, classes=[Halving])
    assert again.operator.factor == 0.25
    with pytest.raises(ValueError, match=r"Halving is no class of treefold; .*classes=\[Halving\]"):
        LCMAggregation.from_pretrained(tmp_path)


def finite():
    steps = torch.tensor([[0, 1], [1, 2], [2, 2]])
    parts = torch.tensor([-1, -1, 1]), torch.tensor([-1, 1, 1])
    return FiniteMonoid(torch.randn(3, 4), torch.tensor([0, 1]), steps, *parts, steps)


def test_a_finite_monoid_is_what_it_was(tmp_path):
    monoid = finite()
    monoid.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.codes.equal(monoid.codes)
    assert again.steps.equal(monoid.steps)
    assert again.answers is None
    with pytest.raises(ValueError, match="holds a FiniteMonoid; expected a BinaryGRU"):
        BinaryGRU.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (LCMAggregation(4, generator=torch.Generator()), r"generator is a torch\.\S*Generator"),
        (aggregator("sum", 4), "aggregation is a torch_geometric"),
    ],
)
def test_what_cannot_be_written_is_named_before_anything_is(module, message, tmp_path):
    with pytest.raises(ValueError, match=f"{message}.*cannot be saved; expected plain data"):
        module.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_half_of_a_model_and_a_changed_one_are_refused(tmp_path):
    for seed in (0, 1):
        torch.manual_seed(seed)
        BinaryGRU(8).save_pretrained(tmp_path / str(seed))
    weights = tmp_path / "0" / "model.safetensors"
    shutil.copy(tmp_path / "1" / "model.safetensors", weights)  # as if killed between two files
    with pytest.raises(ValueError, match=r"is not whole: model\.safetensors is changed: its SHA"):
        load(tmp_path / "0")
    weights.unlink()
    with pytest.raises(ValueError, match=r"is not whole: .*No such file"):
        load(tmp_path / "0")


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(ValueError, match="is of None, format None; expected a model that treefold"):
        load(tmp_path)
    with pytest.raises(ValueError, match="is no folder; give the one"):
        load(tmp_path / "nothing")


def test_a_configuration_makes_nothing_but_models(tmp_path):
    BinaryGRU(8).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name in ("Popen", "subprocess.Popen", "OPERATORS", "torch.nn.init", "aggregator"):
        path.write_text(json.dumps({**config, "class": name}))
        with pytest.raises(ValueError, match=f"{name} is no class of treefold"):
            load(tmp_path)


class TestTheHub:
    def test_what_is_in_its_cache_is_loaded_without_a_network(self, tmp_path, monkeypatch):
        module = GatedSelection(8)
        commit = "0" * 40
        repo = tmp_path / "models--me--selection"
        module.save_pretrained(repo / "snapshots" / commit)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text(commit)
        again = GatedSelection.from_pretrained(
            "me/selection", cache_dir=tmp_path, local_files_only=True
        )
        assert answers(again).equal(answers(module))
        with pytest.raises(ValueError, match="me/other is no folder here, and not found on"):
            load("me/other", cache_dir=tmp_path, local_files_only=True)

    def test_a_push_makes_the_repository_and_uploads_the_two_files(self, tmp_path, monkeypatch):
        seen = {}

        class Api:
            def __init__(self, token):
                seen["token"] = token

            def create_repo(self, repo, *, exist_ok, private):
                seen.update(made=repo, exist_ok=exist_ok, private=private)

            def upload_folder(self, *, repo_id, folder_path, **options):
                shutil.copytree(folder_path, tmp_path / "uploaded")
                seen.update(repo=repo_id, **options)
                return f"https://hub/{repo_id}"

        monkeypatch.setattr(huggingface_hub, "HfApi", Api)
        module = BinaryGRU(8)
        where = module.push_to_hub("me/gru", token="t", private=True, commit_message="First")
        assert where == "https://hub/me/gru"
        assert seen == {
            "token": "t",
            "made": "me/gru",
            "exist_ok": True,
            "private": True,
            "repo": "me/gru",
            "commit_message": "First",
        }
        assert answers(load(tmp_path / "uploaded")).equal(answers(module))
        assert len(list(Path(tmp_path / "uploaded").iterdir())) == 2
