"""Fetching a data set: whole files and a receipt, or none; never someone's own replaced."""

import dataclasses
import hashlib
import io
import json
import subprocess
import sys
import threading
import time
import zipfile

import loopback
import pytest

from treefold.lab.cli.data import fetch_data
from treefold.lab.tasks import (
    GRAPH_TASKS,
    ZINC,
    DownloadError,
    MissingData,
    MolHIV,
    fetch,
)
from treefold.lab.tasks.cache import RECEIPT
from treefold.lab.tasks.realworld.fetching import SOURCES, ZINC_SUBSET, zinc_index

RECEIPTS = f"ogbg_molhiv/{RECEIPT}"


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(loopback.CERTIFICATE))


def archive(few, name="molhiv"):
    """The archive as published, of a few graphs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file, member in SOURCES[name].members.items():
            content = (few / GRAPH_TASKS[name].folder / file).read_bytes()
            zipped.writestr(member, content)
        zipped.writestr("../outside.txt", "not wanted")
    return packed.getvalue()


@pytest.fixture
def publish(monkeypatch):
    """`publish(name, answer)` makes a server on this machine the source of a data set."""
    opened = []

    def begin(name, answer):
        serving = loopback.serving(answer)
        server = serving.__enter__()
        opened.append(serving)
        monkeypatch.setitem(SOURCES, name, dataclasses.replace(SOURCES[name], url=server.url))
        return server

    yield begin
    for serving in opened:
        serving.__exit__(None, None, None)


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["molhiv", "mnist", "cifar10"])
def test_what_is_fetched_is_the_published_files_and_a_receipt(few, tmp_path, publish, name):
    content = archive(few, name)
    publish(name, loopback.whole(content))
    fetched = fetch(name, tmp_path / "data")
    assert fetched.downloaded
    assert fetched.sha256 == hashlib.sha256(content).hexdigest()
    found = files(tmp_path / "data" / GRAPH_TASKS[name].folder)
    receipt = json.loads(found.pop(RECEIPT))
    assert found.keys() == SOURCES[name].members.keys()
    for file, there in found.items():
        assert there == (few / GRAPH_TASKS[name].folder / file).read_bytes()
        assert receipt["files"][file] == hashlib.sha256(there).hexdigest()
    assert (receipt["sha256"], receipt["finished"]) == (fetched.sha256, True)
    task = GRAPH_TASKS[name]()
    assert task.split("val", tmp_path / "data").y.equal(task.split("val", few).y)
    assert not (tmp_path / "outside.txt").exists()


def test_zinc_comes_with_the_published_choice_of_molecules(few, tmp_path, publish):
    publish("zinc", loopback.whole(archive(few, "zinc")))
    fetch("zinc", tmp_path)
    for split in ZINC_SUBSET:
        assert (tmp_path / "ZINC" / "raw" / f"{split}.index").read_text() == zinc_index(split)
    assert len(ZINC(subset=False).split("train", tmp_path)) == 5
    test = zinc_index("test")
    assert test.startswith("912,204,2253,2006,1828,1143,839,4467,712,4837,3456,260,")
    assert test.endswith(",2423,2418,179,2248\n")
    assert zinc_index("val").startswith("20952,")
    for split, (available, used) in ZINC_SUBSET.items():
        numbers = list(map(int, zinc_index(split).split(",")))
        assert len(set(numbers)) == used
        assert max(numbers) < available


def test_what_is_whole_is_not_fetched_again_and_what_is_damaged_is(few, tmp_path, publish):
    server = publish("molhiv", loopback.whole(archive(few)))
    fetch("molhiv", tmp_path)
    assert not fetch("molhiv", tmp_path).downloaded
    assert len(server.requests) == 1
    before = files(tmp_path)
    damaged = tmp_path / "ogbg_molhiv" / "raw" / "edge.csv.gz"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert fetch("molhiv", tmp_path).downloaded
    assert files(tmp_path) == before


def test_another_archive_than_the_first_time_is_refused_unless_it_is_named(few, tmp_path, publish):
    publish("molhiv", loopback.whole(archive(few)))
    fetch("molhiv", tmp_path)
    (tmp_path / "ogbg_molhiv" / "raw" / "edge.csv.gz").unlink()
    other = archive(few) + b"\0"
    publish("molhiv", loopback.whole(other))
    with pytest.raises(DownloadError, match="it is another file"):
        fetch("molhiv", tmp_path)
    named = hashlib.sha256(other).hexdigest().upper()
    assert fetch("molhiv", tmp_path, sha256=named).sha256 == named.lower()


def test_a_wrong_sum_leaves_nothing_and_is_forgotten(few, tmp_path, publish):
    publish("molhiv", loopback.whole(archive(few)))
    with pytest.raises(DownloadError, match="expected 00000"):
        fetch("molhiv", tmp_path, sha256="0" * 64)
    assert files(tmp_path) == {}
    assert fetch("molhiv", tmp_path).downloaded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"<html>sign in</html>", "not a whole zip archive"),
        (lambda content: content[:-30], "not a whole zip archive"),
        (lambda content: content.replace(b"hiv/raw/edge.csv.gz", b"hiv/raw/edgy.csv.gz"), "has no"),
    ],
)
def test_what_is_not_the_archive_is_refused_and_can_be_fetched_later(
    few, tmp_path, publish, change, message
):
    publish("molhiv", loopback.whole(change(archive(few))))
    with pytest.raises(DownloadError, match=message):
        fetch("molhiv", tmp_path)
    assert files(tmp_path).keys() == {RECEIPTS}
    with pytest.raises(MissingData, match="not fetched completely"):
        MolHIV().split("val", tmp_path)
    publish("molhiv", loopback.whole(archive(few)))
    fetch("molhiv", tmp_path)
    assert len(MolHIV().split("val", tmp_path)) == 1


def test_a_damaged_member_is_refused(few, tmp_path, publish):
    content = bytearray(archive(few))
    content[content.index(b"hiv/raw/num-node-list.csv.gz") + 40] ^= 1
    publish("molhiv", loopback.whole(bytes(content)))
    with pytest.raises(DownloadError, match="not a whole zip archive"):
        fetch("molhiv", tmp_path)


def test_someone_s_own_files_are_not_replaced(copy, publish):
    server = publish("molhiv", loopback.whole(b""))
    before = files(copy)
    with pytest.raises(ValueError, match="was not fetched by treefold"):
        fetch("molhiv", copy)
    assert files(copy) == before
    assert server.requests == []


def test_a_process_that_is_killed_leaves_nothing_that_counts(few, tmp_path, publish):
    content, stop = archive(few), threading.Event()

    def half(handler):
        handler.start(Content_Length=len(content))
        handler.wfile.write(content[:500])
        handler.wfile.flush()
        stop.wait(60)

    server = publish("molhiv", half)
    program = (
        "import dataclasses, sys\n"
        "from treefold.lab.tasks.realworld.fetching import SOURCES, fetch\n"
        "SOURCES['molhiv'] = dataclasses.replace(SOURCES['molhiv'], url=sys.argv[1])\n"
        "fetch('molhiv', sys.argv[2])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, server.url, tmp_path]
    )
    try:
        until(lambda: any(tmp_path.rglob(".archive.zip.*.tmp")))
    finally:
        process.kill()
        process.wait()
        stop.set()
    with pytest.raises(MissingData, match="treefold data fetch molhiv"):
        MolHIV().split("val", tmp_path)
    publish("molhiv", loopback.whole(content))
    assert fetch("molhiv", tmp_path).downloaded
    assert len(MolHIV().split("val", tmp_path)) == 1
    assert not any(tmp_path.rglob("*.tmp"))
    assert not any(tmp_path.rglob("archive.zip"))


def test_what_a_killed_process_left_while_unpacking_is_cleared(few, tmp_path, publish):
    raw = tmp_path / "ogbg_molhiv" / "raw"
    raw.mkdir(parents=True)
    (raw / ".edge.csv.gz.999999999-0123abcd.tmp").write_bytes(b"half")
    publish("molhiv", loopback.whole(archive(few)))
    fetch("molhiv", tmp_path)
    assert not any(tmp_path.rglob("*.tmp"))


def until(reached):
    for _ in range(1200):
        if reached():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen in a minute")


def test_the_command_prints_what_came_and_how_many_graphs(few, tmp_path, publish, capsys):
    content = archive(few)
    publish("molhiv", loopback.whole(content))
    fetch_data("molhiv", tmp_path / "data", None)
    printed = capsys.readouterr()
    assert hashlib.sha256(content).hexdigest() in printed.out
    assert "train 3  val 1  test 2 graphs" in printed.out
    assert f"TREEFOLD_DATA={tmp_path / 'data'}" in printed.out
    fetch_data("molhiv", tmp_path / "data", None)
    assert "nothing was downloaded" in capsys.readouterr().out


def test_unknown_names_get_a_hint():
    with pytest.raises(ValueError, match="did you mean molhiv"):
        fetch("molhvi")


def test_every_task_has_a_source_with_all_its_files():
    for name, task in GRAPH_TASKS.items():
        own = {f"raw/{split}.index" for split in ZINC_SUBSET} if name == "zinc" else set()
        assert set(task().files()) == SOURCES[name].members.keys() | own
        assert SOURCES[name].url.startswith("https://")
