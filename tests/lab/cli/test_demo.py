"""Models that come with treefold work where it is installed: by name, and in the demo."""

import pytest

from treefold.lab.cli.app import app
from treefold.lab.experiments import TRAINED, certify_network, experiment_of, load_model, run_of
from treefold.lab.runs import Record


def treefold(*arguments):
    app([str(argument) for argument in arguments], result_action="return_value")


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_is_loaded_by_its_name_and_all_of_its_scores_are_known(name, capsys):
    assert not load_model(name).training
    record = Record.read(run_of(name))
    assert record.status == "finished"
    treefold("evaluate", name, "--sizes", "1-16", "--threads", "1")
    printed = capsys.readouterr().out.splitlines()[-1].split()
    assert printed[0] == "accuracy@1-16"
    assert float(printed[1]) == pytest.approx(record.metrics["accuracy@1-16"], abs=1e-3)


@pytest.mark.parametrize("name", ["trained/parity", "trained/second-minimum-5"])
def test_the_proof_of_a_trained_model_holds(name):
    task = experiment_of(Record.read(run_of(name))).task
    assert certify_network(load_model(name), task).certificate.holds


def test_a_name_that_nothing_has_is_told_the_nearest():
    with pytest.raises(ValueError, match="did you mean trained/parity"):
        load_model("trained/partiy")


def test_the_demo_shows_larger_sets_a_proof_and_updates_and_writes_a_page(tmp_path, capsys):
    treefold("demo", "--out", tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    assert "is proved right for every set of any size" in printed
    assert "came to the right answer twice" in printed
    assert "less time than folding the set again" in printed
    page = (tmp_path / "demo.html").read_text()
    assert "largest in training: 16" in page
    assert page.count("<section") == 3
