"""A proxy in front of a server, which answers some requests itself or changes them."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

#: Gets the path and the body of a request, and returns the body to pass on, a status to answer with instead, `None` for a
#: response that breaks off, or `Lost` for a request that is passed on and whose response breaks off.
Intercept = Callable[[str, Any], Any]


@dataclass
class Lost:
    """Body of a request that is passed on and whose response breaks off."""

    body: Any


@contextmanager
def proxy(target: str, intercept: Intercept) -> Iterator[str]:
    """Yields the address of a proxy."""

    class Passing(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = intercept(self.path, body)
            if body is None:
                self.answer(200, b"", length=100)
            elif isinstance(body, int):
                self.answer(body, f"{body} of the proxy".encode(), media_type="text/plain")
            else:
                passed = self.passed(body.body if isinstance(body, Lost) else body)
                length = len(passed.content) + 100 if isinstance(body, Lost) else None
                self.answer(passed.status_code, passed.content, length, passed.headers.get("Content-Type", ""))

        def passed(self, body: Any) -> httpx.Response:
            headers = {"Authorization": self.headers["Authorization"]}
            return httpx.post(f"{target}{self.path}", json=body, headers=headers, timeout=40)

        def answer(self, status: int, body: bytes, length: int | None = None, media_type: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Passing)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_address[1]}"
    finally:
        listening.shutdown()
        listening.server_close()
