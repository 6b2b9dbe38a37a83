"""Values that make no sense are refused in our words, before a folder is made."""

import pytest

from treefold.lab.cli.commands import checked_seed, evaluate_run, train_rows, world_of
from treefold.lab.cli.manifest import Entry, jobs_of
from treefold.lab.cli.options import Machine
from treefold.lab.cli.sweeping import sweep_rows
from treefold.lab.tasks import SET_TASKS

WRONG = [
    ("gru", "aggregator.name=foo", r"unknown aggregator 'foo'"),
    ("gru", "aggregator.name=oracel", r"did you mean oracle\?"),
    ("gru", "task.k=0", r"k = 0 keeps nothing; use k of at least 1"),
    ("sum", "training.learning_rate=inf", r"learning_rate is inf; expected a number more than 0"),
    ("sum", "training.clip_norm=inf", r"clip_norm is inf; expected a number more than 0"),
    ("sum", "training.weight_decay=inf", r"weight_decay is inf; expected 0 or more"),
    ("sum", "training.weight_decay=-1", r"training\.weight_decay is -1\.0; expected 0 or more"),
    ("binary-gru", "aggregator.options=5", r"aggregator\.options is '5'; expected names with"),
    ("binary-gru", "aggregator.options.law_nodes=abc", r"law_nodes is 'abc'; expected 1 or more"),
    ("binary-gru", "aggregator.options.associativity=x", r"associativity is 'x'; expected 0 or"),
    ("gru", "aggregator.options.permutations=x", r"'x' permutations; expected 1 or more"),
]


@pytest.mark.parametrize(("row", "change", "words"), WRONG)
def test_a_wrong_value_is_found_out_before_a_run_begins(tmp_path, row, change, words):
    name = f"second-minimum/{row}"
    with pytest.raises(ValueError, match=words):
        train_rows(name, "smoke", 0, tmp_path, [change], Machine(), False)
    with pytest.raises(ValueError, match=words):
        sweep_rows([Entry((name,), "smoke", 1, (change,))], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_convolutions_are_rows_of_the_multi_task_benchmark_alone(tmp_path):
    tasks, sets = (
        Entry((name,), "smoke", 1, ("aggregator.name=gcn",))
        for name in ("multi-task/mpnn-sum", "second-minimum/sum")
    )
    assert list(jobs_of([tasks], tmp_path))
    with pytest.raises(ValueError, match=r"unknown aggregator 'gcn'"):
        list(jobs_of([sets], tmp_path))


@pytest.mark.parametrize("seed", [-1, 1 << 43])
def test_seeds_that_generators_do_not_take_are_refused(tmp_path, seed):
    with pytest.raises(ValueError, match=rf"--seed is {seed}; expected 0 or more"):
        train_rows("second-minimum/sum", "smoke", seed, tmp_path, [], Machine(), False)


def test_the_largest_seed_has_data(tmp_path):
    seed = checked_seed((1 << 43) - 1)
    assert len(SET_TASKS["second-minimum"](num_validation=4).validation(seed)) == 4


def test_numbers_of_threads_and_workers_are_at_least_one(tmp_path):
    with pytest.raises(ValueError, match=r"--threads is 0; expected 1 or more"):
        world_of(Machine(threads=0))
    for workers in (0, -1):
        with pytest.raises(ValueError, match=rf"--workers is {workers}; expected 1 or more"):
            sweep_rows([Entry(("second-minimum/sum",), "smoke", 1)], tmp_path, workers)


def test_sizes_from_a_larger_to_a_smaller_one_are_refused(tmp_path):
    train_rows(
        "second-minimum/sum", "smoke", 0, tmp_path,
        ["training.epochs=1", "task.num_train=32", "evaluation.sizes=1"], Machine(threads=1), False,
    )  # fmt: skip
    folder = next(tmp_path.rglob("record.json")).parent
    with pytest.raises(ValueError, match=r"sizes are '9-3'; expected something like 1-16,32,200"):
        evaluate_run(folder, "9-3", None, Machine(threads=1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["partition=gpu"], "there is no sbatch here; call it where jobs are submitted"),
        (["cluster=local", "slurm_foo=bar"], "--slurm cluster=local slurm_foo=bar: "),
    ],
)
def test_slurm_that_is_not_there_or_misunderstood_starts_nothing(
    tmp_path, monkeypatch, settings, words
):
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=words):
        sweep_rows([Entry(("second-minimum/sum",), "smoke", 1)], tmp_path, slurm=settings)
    assert not list(tmp_path.rglob("record.json"))
