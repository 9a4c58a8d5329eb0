"""A loopback proxy that adds a bearer key: the conformance suites have no option for a header.

Everything else passes as it came, `Host` above all, since a suite forges it to see whether it is refused.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

__all__ = ["bearer_proxy"]

_TIMEOUT_S = 60
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"}


@contextmanager
def bearer_proxy(base_url: str, api_key: str) -> Iterator[str]:
    """The base URL of a proxy to `base_url`, open within the context."""

    class Handler(_Forward):
        target = urlsplit(base_url).netloc
        authorization = f"Bearer {api_key}"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="bearer proxy", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: str
    authorization: str

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(self.target, timeout=_TIMEOUT_S)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_CONNECTION | {"authorization"}:
                    upstream.putheader(name, value)
            upstream.putheader("Authorization", self.authorization)
            upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_OPTIONS = _forward  # noqa: N815, the base class looks for these names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the base class names it
        """Requests carry a key's answers; nothing of them is printed."""
