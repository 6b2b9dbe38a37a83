"""A server on this machine that speaks TLS and misbehaves as it is asked to."""

import ssl
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = Path(__file__).parent / "data" / "realworld" / "loopback.pem"  # for 127.0.0.1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append(self.path)
        self.close_connection = True
        with suppress(OSError):  # a client that refuses hangs up
            self.server.answer(self)

    def log_message(self, *_):
        pass

    def start(self, code=200, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.flush()


@contextmanager
def serving(answer):
    """Yields a server whose `url` gives what `answer(handler)` writes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.answer, server.requests = answer, []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # a client that does not trust us hangs up
    server.url = f"https://127.0.0.1:{server.server_port}/file.zip"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def trusting():
    """A context that trusts that server, and checks as usual otherwise."""
    return ssl.create_default_context(cafile=CERTIFICATE)


def whole(content):
    """Answer as one should."""

    def answer(handler):
        handler.start(Content_Length=len(content))
        handler.wfile.write(content)

    return answer


def truncated(content, length):
    """Announce `length` bytes and hang up after `content`."""

    def answer(handler):
        handler.start(Content_Length=length)
        handler.wfile.write(content)

    return answer


def half_chunked(content):
    """Send a chunk and hang up without the last, empty one."""

    def answer(handler):
        handler.start(Transfer_Encoding="chunked")
        handler.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    return answer
