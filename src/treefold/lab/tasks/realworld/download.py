"""One file from the network, over TLS: with the announced length and the right SHA-256, or none."""

import hashlib
import http.client
import os
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from treefold.atomic import storage_errors

Progress = Callable[[int, int | None], None]
"""Called with the bytes received and the total (None if it is not announced)."""

_CHUNK = 1 << 18
_REDIRECTS = 5


class DownloadError(RuntimeError):
    """A download was refused or broke off; nothing of it is left."""


@dataclass(frozen=True)
class Download:
    """A file to download, with limits on what is accepted."""

    url: str
    hosts: tuple[str, ...]
    """Hosts that the address may redirect to, with their subdomains."""
    max_bytes: int
    sha256: str | None = None
    """Checksum of the whole file, in hexadecimal, if it is known."""


@dataclass(frozen=True)
class Patience:
    """When to give up: after so many seconds with fewer than so many bytes in each."""

    seconds: float = 30.0
    bytes_a_second: float = 1000.0


PATIENT = Patience()


def download(
    wanted: Download,
    path: Path,
    progress: Progress = lambda done, total: None,
    patience: Patience = PATIENT,
    context: ssl.SSLContext | None = None,
) -> str:
    """Make `path` the wanted file and return its SHA-256; a `DownloadError` leaves no trace."""
    with storage_errors(path), temporary_next_to(path) as part:
        digest = _receive(wanted, part, progress, patience, context)
        if wanted.sha256 is not None and digest != wanted.sha256.lower():
            raise DownloadError(
                f"{wanted.url} has the SHA-256 {digest}, expected {wanted.sha256}; it is another "
                "file, or was changed on the way. Nothing was kept"
            )
        part.replace(path)
    return digest


def _receive(
    wanted: Download,
    part: Path,
    progress: Progress,
    patience: Patience,
    context: ssl.SSLContext | None,
) -> str:
    digest, done = hashlib.sha256(), 0
    with _network_errors(wanted.url), closing(_opened(wanted, patience, context)) as response:
        total = _announced_length(response, wanted)
        with part.open("wb") as file:
            for chunk in _chunks(response, patience):
                done += len(chunk)
                if done > wanted.max_bytes:
                    raise _too_large(done, wanted)
                digest.update(chunk)
                file.write(chunk)
                progress(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done != total:
        raise DownloadError(f"{wanted.url} broke off after {done:,} of {total:,} bytes; try again")
    return digest.hexdigest()


def _opened(wanted: Download, patience: Patience, context: ssl.SSLContext | None) -> Any:
    _check_address(wanted.url, wanted)
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context or ssl.create_default_context()),
        _CheckedRedirects(wanted),
    )
    headers = {"Accept-Encoding": "identity", "User-Agent": "treefold"}
    request = urllib.request.Request(wanted.url, headers=headers)
    return opener.open(request, timeout=patience.seconds)


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _REDIRECTS

    def __init__(self, wanted: Download) -> None:
        self._wanted = wanted

    def redirect_request(self, *arguments: Any, **named: Any) -> urllib.request.Request | None:
        """Follow only to addresses that would be accepted in a `Download`."""
        _check_address(named.get("newurl") or arguments[5], self._wanted)
        return super().redirect_request(*arguments, **named)


def _check_address(url: str, wanted: Download) -> None:
    address = urlsplit(url)
    host = address.hostname or ""
    if address.scheme != "https":
        raise DownloadError(
            f"{wanted.url} leads to {url}, which is not https and could be changed on the way; "
            "nothing was downloaded"
        )
    if not any(host == known or host.endswith(f".{known}") for known in wanted.hosts):
        raise DownloadError(
            f"{wanted.url} leads to {host}, expected {' or '.join(wanted.hosts)}; nothing was "
            "downloaded"
        )


def _announced_length(response: Any, wanted: Download) -> int | None:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"{wanted.url} is sent as {encoding}; expected it as it is")
    length = response.headers.get("Content-Length")
    if length is None:
        # Chunked responses end with an empty chunk; others need a checksum to notice half a file.
        if not response.chunked and wanted.sha256 is None:
            raise DownloadError(
                f"{wanted.url} does not announce its length: half a file would not be "
                "noticed; give its SHA-256"
            )
        return None
    if int(length) > wanted.max_bytes:
        raise _too_large(int(length), wanted)
    return int(length)


def _too_large(size: int, wanted: Download) -> DownloadError:
    return DownloadError(
        f"{wanted.url} has {size:,} bytes or more, expected at most {wanted.max_bytes:,}; nothing "
        "was kept"
    )


def _chunks(response: Any, patience: Patience) -> Iterator[bytes]:
    """Yield chunks as they arrive; a TimeoutError if the server is too slow."""
    since, received = time.monotonic(), 0
    while chunk := response.read1(_CHUNK):
        yield chunk
        received += len(chunk)
        elapsed = time.monotonic() - since
        if elapsed > patience.seconds:
            if received < elapsed * patience.bytes_a_second:
                raise TimeoutError(f"{received} bytes in {elapsed:.0f} seconds")
            since, received = time.monotonic(), 0


@contextmanager
def _network_errors(url: str) -> Iterator[None]:
    """Inside, whatever the network does wrong is raised as a `DownloadError`."""
    try:
        yield
    except DownloadError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{url} answers {error.code} {error.reason}") from None
    except TimeoutError as error:
        raise DownloadError(f"{url} stalls ({error}); try again later") from error
    except (urllib.error.URLError, http.client.HTTPException, ssl.SSLError) as error:
        raise _explained(url, error) from error
    except ConnectionError as error:
        raise DownloadError(f"{url} broke off ({error}); try again") from error


def _explained(url: str, error: Exception) -> DownloadError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DownloadError(f"{url} cannot prove who it is ({reason.verify_message}); not trusted")
    if isinstance(reason, TimeoutError):
        return DownloadError(f"{url} stalls ({reason}); try again later")
    if isinstance(reason, http.client.IncompleteRead | ssl.SSLEOFError):
        return DownloadError(f"{url} broke off; try again")
    return DownloadError(
        f"{url} cannot be reached ({reason}); without a network, put the files in a folder and "
        "name it with --data or the variable TREEFOLD_DATA"
    )


@contextmanager
def temporary_next_to(path: Path) -> Iterator[Path]:
    """A temporary name next to `path`; the file is removed, unless it was renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink()
