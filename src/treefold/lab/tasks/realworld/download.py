"""One file from the network, over TLS: with the announced length and the right SHA-256, or none."""

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from treefold.atomic import replaced_atomically

Progress = Callable[[int, int | None], None]
"""Called with the bytes received and the total (None if it is not announced)."""

_CHUNK = 1 << 18
_SECONDS = 30.0
"""The longest silence of a server."""


class DownloadError(RuntimeError):
    """A download was refused or broke off; nothing of it is left."""


def download(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    progress: Progress = lambda done, total: None,
    seconds: float = _SECONDS,
    context: ssl.SSLContext | None = None,
) -> str:
    """Make `path` the file at `url` and return its SHA-256; a `DownloadError` leaves no trace."""
    with replaced_atomically(path) as part, _network_errors(url):
        digest, done = hashlib.sha256(), 0
        with _opened(url, seconds, context) as response, part.open("wb") as file:
            length = response.headers.get("Content-Length")
            total = None if length is None else int(length)
            while chunk := response.read1(_CHUNK):
                done += len(chunk)
                digest.update(chunk)
                file.write(chunk)
                progress(done, total)
        if total is not None and done != total:
            raise DownloadError(f"{url} broke off after {done:,} of {total:,} bytes; try again")
        if sha256 is not None and digest.hexdigest() != sha256.lower():
            raise DownloadError(
                f"{url} has the SHA-256 {digest.hexdigest()}, expected {sha256}; it is another "
                "file, or was changed on the way. Nothing was saved"
            )
    return digest.hexdigest()


def _opened(url: str, seconds: float, context: ssl.SSLContext | None) -> Any:
    _require_https(url)
    handler = urllib.request.HTTPSHandler(context=context or ssl.create_default_context())
    opener = urllib.request.build_opener(handler, _SafeRedirects)
    request = urllib.request.Request(url, headers={"User-Agent": "treefold"})
    return opener.open(request, timeout=seconds)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Follow to addresses that are as safe as the first."""
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _require_https(url: str) -> None:
    if not url.startswith("https://"):
        raise DownloadError(
            f"the address {url} is not https, and the file could be changed on the way; nothing "
            "was downloaded"
        )


@contextmanager
def _network_errors(url: str) -> Iterator[None]:
    """Inside, network errors are raised as a `DownloadError`."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(f"{url} answers {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        raise DownloadError(
            f"{url} cannot be read ({getattr(error, 'reason', error)}); try again, or, without a "
            "network, put the files in a folder and name it with --data or the variable "
            "TREEFOLD_DATA"
        ) from error
    except (TimeoutError, ssl.SSLError) as error:
        raise DownloadError(f"{url} stalls or broke off ({error}); try again later") from error
