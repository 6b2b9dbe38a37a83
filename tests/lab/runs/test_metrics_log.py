import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.runs.disk import Killed, failing_disk, os_error

from treefold.atomic import StorageError
from treefold.lab.runs import MetricsLog

ROWS = [{"epoch": n, "loss": 1 / n, "phase": f"part {n}"} for n in (1, 2, 3)]


@pytest.fixture
def log(tmp_path):
    log = MetricsLog(tmp_path)
    for row in ROWS:
        log.append(row)
    return log


def test_the_file_is_an_ordinary_csv(log):
    assert log.path.name == "metrics.csv"
    assert log.path.read_text() == (
        "epoch,loss,phase\n1,1.0,part 1\n2,0.5,part 2\n3,0.3333333333333333,part 3\n"
    )


def test_rows_are_read_as_they_were_written(log, tmp_path):
    assert MetricsLog.read(tmp_path) == ROWS
    assert [type(value) for value in MetricsLog.read(tmp_path)[0].values()] == [int, float, str]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_floats_come_back_bit_for_bit(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("log")
    log = MetricsLog(folder)
    for epoch, value in enumerate(values):
        log.append({"epoch": epoch, "value": value})
    read = [row["value"] for row in MetricsLog.read(folder)]
    assert [value.hex() for value in read] == [value.hex() for value in values]


def test_nan_and_text_with_commas_and_quotes_are_kept(tmp_path):
    MetricsLog(tmp_path).append({"epoch": 1, "loss": math.nan, "note": 'say "a, b" \u2028'})
    (row,) = MetricsLog.read(tmp_path)
    assert math.isnan(row["loss"])
    assert row["note"] == 'say "a, b" \u2028'


def test_what_a_row_lacks_stays_empty_and_is_not_read(log, tmp_path):
    log.append({"epoch": 4, "phase": "x"})
    log.append({"epoch": 5, "loss": 0.25})
    assert log.path.read_text().endswith("\n4,,x\n5,0.25,\n")
    assert MetricsLog.read(tmp_path)[3:] == [{"epoch": 4, "phase": "x"}, {"epoch": 5, "loss": 0.25}]


def test_a_column_that_the_first_row_lacked_is_left_out(log, tmp_path):
    MetricsLog(tmp_path).append({"epoch": 4, "accuracy": 0.5})
    assert MetricsLog.read(tmp_path) == [*ROWS, {"epoch": 4}]


def test_a_resumed_log_drops_later_epochs(log, tmp_path):
    resumed = MetricsLog(tmp_path)
    resumed.truncate_after(2)
    assert MetricsLog.read(tmp_path) == ROWS[:2]
    resumed.append(ROWS[2])
    assert MetricsLog.read(tmp_path) == ROWS


def test_nothing_changes_where_nothing_is_later(log):
    before = log.path.stat().st_ino
    log.truncate_after(3)
    assert log.path.stat().st_ino == before


def test_a_log_without_rows_takes_new_columns(log, tmp_path):
    log.truncate_after(0)
    assert MetricsLog.read(tmp_path) == []
    log.append({"epoch": 1, "accuracy": 0.5})
    assert MetricsLog.read(tmp_path) == [{"epoch": 1, "accuracy": 0.5}]


def test_no_log_reads_as_no_rows(tmp_path):
    assert MetricsLog.read(tmp_path) == []
    MetricsLog(tmp_path).truncate_after(3)
    assert not (tmp_path / "metrics.csv").exists()


def test_a_log_cut_anywhere_keeps_its_whole_rows(log, tmp_path):
    data = log.path.read_bytes()
    for length in range(len(data)):
        log.path.write_bytes(data[:length])
        whole = max(data[:length].count(b"\n") - 1, 0)
        assert MetricsLog.read(tmp_path) == ROWS[:whole]
        reopened = MetricsLog(tmp_path)
        for row in ROWS[whole:]:
            reopened.append(row)
        assert log.path.read_bytes() == data


def test_a_row_is_on_the_disk_or_there_is_an_error_and_the_log_is_as_before(log, tmp_path):
    for at in (1, 2, 3):
        with (
            failing_disk(at, os_error("ENOSPC")),
            pytest.raises(StorageError, match=r"metrics.csv"),
        ):
            log.append({"epoch": 4, "loss": 0.25, "phase": "part 4"})
        assert MetricsLog.read(tmp_path) == ROWS
    log.append({"epoch": 4})
    assert MetricsLog.read(tmp_path) == [*ROWS, {"epoch": 4}]


def test_a_first_row_that_cannot_be_written_fixes_no_columns(tmp_path):
    log = MetricsLog(tmp_path)
    with failing_disk(2, os_error("ENOSPC")), pytest.raises(StorageError):
        log.append({"epoch": 1, "loss": 1.0})
    log.append({"epoch": 1, "accuracy": 1.0})
    assert MetricsLog.read(tmp_path) == [{"epoch": 1, "accuracy": 1.0}]


def test_a_kill_while_truncating_leaves_all_rows_or_the_fewer(log, tmp_path):
    for at in range(1, 5):
        with failing_disk(at, Killed(), for_good=True), pytest.raises(Killed):
            log.truncate_after(1)
        assert MetricsLog.read(tmp_path) == ROWS
    with failing_disk(5, Killed(), for_good=True), pytest.raises(Killed):
        log.truncate_after(1)
    assert MetricsLog.read(tmp_path) == ROWS[:1]


def test_a_line_with_missing_cells_is_named(log, tmp_path):
    log.path.write_text("epoch,loss\n1,0.5\n2\n3,0.25\n")
    with pytest.raises(ValueError, match=r"metrics.csv has 1 cells in line 3, expected 2"):
        MetricsLog.read(tmp_path)


def test_a_file_that_is_no_text_is_named(log, tmp_path):
    log.path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"metrics.csv is not text"):
        MetricsLog.read(tmp_path)
