"""Downloads are whole and right, or refused without a trace."""

import hashlib
import threading

import loopback
import pytest

from treefold.lab.tasks.realworld.download import DownloadError, download

CONTENT = bytes(range(256)) * 3000
SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def _direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def get(server, folder, **changes):
    reported = []
    digest = download(
        server.url,
        folder / "file.zip",
        progress=lambda *progress: reported.append(progress),
        context=loopback.trusting(),
        **changes,
    )
    return digest, reported


def assert_refused(answer, folder, message, **changes):
    (folder / "file.zip").write_bytes(b"old")
    with loopback.serving(answer) as server, pytest.raises(DownloadError, match=message):
        get(server, folder, **changes)
    assert [path.name for path in folder.iterdir()] == ["file.zip"]
    assert (folder / "file.zip").read_bytes() == b"old"


@pytest.mark.parametrize("sha256", [None, SUM, SUM.upper()])
def test_a_whole_file_arrives_and_its_progress_is_reported(tmp_path, sha256):
    with loopback.serving(loopback.whole(CONTENT)) as server:
        digest, reported = get(server, tmp_path, sha256=sha256)
    assert digest == SUM
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    assert reported[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in reported] == sorted({done for done, _ in reported})


@pytest.mark.parametrize("length", [0, 1, 100_000, len(CONTENT) - 1])
def test_a_truncated_file_is_refused(tmp_path, length):
    answer = loopback.truncated(CONTENT[:length], len(CONTENT))
    assert_refused(answer, tmp_path, rf"broke off after {length:,} of {len(CONTENT):,} bytes")


def test_chunks_without_an_end_are_refused(tmp_path):
    assert_refused(loopback.half_chunked(CONTENT), tmp_path, "IncompleteRead")


def test_another_content_is_refused(tmp_path):
    changed = b"\1" + CONTENT[1:]
    assert_refused(loopback.whole(changed), tmp_path, f"expected {SUM}", sha256=SUM)


def test_a_server_that_stalls_is_not_waited_for(tmp_path):
    stop = threading.Event()

    def answer(handler):
        handler.start(Content_Length=1000)
        handler.wfile.write(b"x")
        stop.wait(20)

    try:
        assert_refused(answer, tmp_path, "stalls", seconds=0.3)
    finally:
        stop.set()


def test_a_server_that_never_answers_is_not_waited_for(tmp_path):
    stop = threading.Event()
    try:
        assert_refused(lambda handler: stop.wait(20), tmp_path, "stalls", seconds=0.3)
    finally:
        stop.set()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://127.0.0.1/file.zip", "not https"),
        ("ftp://127.0.0.1/file.zip", "not https"),
        ("file:///etc/hostname", "302|not https"),
        ("/again", "302"),
    ],
)
def test_redirects_to_elsewhere_are_refused(tmp_path, location, message):
    def answer(handler):
        handler.start(302, Location=location, Content_Length=0)

    assert_refused(answer, tmp_path, message)


def test_a_redirect_on_the_same_host_is_followed(tmp_path):
    def answer(handler):
        if handler.path == "/file.zip":
            handler.start(302, Location="/moved", Content_Length=0)
        else:
            loopback.whole(CONTENT)(handler)

    with loopback.serving(answer) as server:
        assert get(server, tmp_path, sha256=SUM)[0] == SUM
        assert server.requests == ["/file.zip", "/moved"]


def test_a_server_that_cannot_prove_who_it_is_is_refused(tmp_path):
    with (
        loopback.serving(loopback.whole(CONTENT)) as server,
        pytest.raises(DownloadError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        download(server.url, tmp_path / "file.zip")
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []


def test_plain_http_is_never_asked(tmp_path):
    with pytest.raises(DownloadError, match="not https"):
        download("http://127.0.0.1:9/file.zip", tmp_path / "file.zip")


@pytest.mark.parametrize("code", [404, 500])
def test_an_error_of_the_server_is_reported(tmp_path, code):
    assert_refused(lambda handler: handler.start(code, Content_Length=0), tmp_path, str(code))


def test_without_a_network_the_message_says_what_to_do(tmp_path):
    with pytest.raises(DownloadError, match=r"cannot be read.*TREEFOLD_DATA"):
        download("https://127.0.0.1:9/file.zip", tmp_path / "file.zip")  # nobody listens
