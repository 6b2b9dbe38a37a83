import json
import math

import pytest
from lab.runs.disk import failing_disk, os_error

from treefold.atomic import StorageError
from treefold.lab.runs import Record, find_runs

RECORD = Record(
    name="second-minimum/binary-gru",
    preset="smoke",
    seed=1,
    recipe={"training": {"epochs": 2, "betas": [0.9, 0.999]}},
    metrics={"accuracy@200": 0.1, "sizes": {"1": 1.0}},
)


def test_a_record_is_read_as_it_was_written(tmp_path):
    RECORD.write(tmp_path)
    assert Record.read(tmp_path) == RECORD


def test_what_never_decided_anything_is_not_read_from_old_recipes(tmp_path):
    old = {"task": {"name": "xor", "bits": 8, "max_evaluation_size": 200}, "model": {}}
    Record("xor/sum", "smoke", 1, old).write(tmp_path)
    assert Record.read(tmp_path).recipe == {"task": {"name": "xor", "bits": 8}, "model": {}}


def test_numbers_that_json_lacks_are_strict_json_and_come_back(tmp_path):
    Record("r", "smoke", 1, {}, metrics={"loss": math.nan, "worst": math.inf}).write(tmp_path)
    text = (tmp_path / "record.json").read_text()
    written = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert written["metrics"] == {"loss": {"$float": "nan"}, "worst": {"$float": "inf"}}
    metrics = Record.read(tmp_path).metrics
    assert math.isnan(metrics["loss"])
    assert metrics["worst"] == math.inf


def test_tuples_are_written_as_lists_and_any_text_can_be_written(tmp_path):
    Record("r", "smoke", 1, {"betas": (0.9, 0.999)}, error="λ \udcff").write(tmp_path)
    read = Record.read(tmp_path)
    assert read.recipe == {"betas": [0.9, 0.999]}
    assert read.error == "λ \udcff"
    assert b"\xce\xbb" in (tmp_path / "record.json").read_bytes()


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path):
    RECORD.write(tmp_path)
    with failing_disk(2, os_error("ENOSPC")), pytest.raises(StorageError, match=r"record\.json"):
        Record("other", "smoke", 2, {}).write(tmp_path)
    assert Record.read(tmp_path) == RECORD


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "has version None"),
        ('{"version": 2}', "has version 2; this treefold reads 1"),
        ('{"version": 1, "name": "x"}', r"lacks \['preset', 'recipe', 'seed'\]"),
        ('{"version": 1, "colour": "red"}', r"unknown entries \['colour'\]"),
        ('{"version": 1, "metrics": {"$set": []}}', "unknown tag"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_a_reason(tmp_path, text, words):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        Record.read(tmp_path)


def test_a_folder_without_a_record_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no record\.json; give a run folder"):
        Record.read(tmp_path / "nowhere")


def test_runs_are_found_below_a_folder_in_order(tmp_path):
    for place in ("b/1", "a", "b"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        RECORD.write(tmp_path / place)
    assert list(find_runs(tmp_path)) == [tmp_path / "a", tmp_path / "b", tmp_path / "b/1"]
