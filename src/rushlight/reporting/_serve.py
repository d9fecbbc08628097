"""The report while the program runs: a page on this machine that asks for news."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from rushlight import _pages

if TYPE_CHECKING:
    from rushlight.reporting import Report


class Server:
    """Serves ``/`` and ``/data`` on the loopback interface, in a thread."""

    def __init__(self, report: Report, port: int = 0) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(report))
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(report: Report) -> type[BaseHTTPRequestHandler]:
    from rushlight.reporting._page import data_of, page_of

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page elsewhere that guesses the port must not read this one by another name.
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if host not in ("127.0.0.1", "localhost"):
                self.send_error(403)
            elif self.path == "/":
                self._send("text/html", page_of(report, live=True))
            elif self.path == "/data":
                self._send("application/json", _pages.json_text(data_of(report)))
            else:
                self.send_error(404)

        def _send(self, kind: str, text: str) -> None:
            content = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass  # the program's output is its own

    return Handler
