#!/usr/bin/env python3
"""A worker as written for Rickover: it accepts a job, does it, and posts its status.

It echoes the data of a job. `{"fail": "why"}` fails, `{"fail": "why", "retryable": false}` for good, and `{"busy": true}` is
refused once with 503. Standard library only.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import queue
import threading
import time
import urllib.error
import urllib.request
from typing import Any

BASIC = "Basic " + base64.b64encode(f"jobs:{os.environ['DOWNSTREAM_PASSWORD']}".encode()).decode()
RICKOVER = os.environ.get("RICKOVER_URL", "http://127.0.0.1:9090")
jobs: queue.Queue[tuple[str, Any]] = queue.Queue()
was_busy: set[str] = set()


class Downstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != BASIC:
            return self.answer(401, {"title": "Unauthorized"})
        data = body["data"]
        if isinstance(data, dict) and data.get("busy") and self.path not in was_busy:
            was_busy.add(self.path)
            return self.answer(503, {"title": "busy"}, {"Retry-After": "1"})
        jobs.put((self.path, data))
        self.answer(202, {"status": "accepted"})

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def work() -> None:
    while True:
        path, data = jobs.get()
        # As Go writes the fields, and with the attempt that its worker does not fill in.
        status: dict[str, Any] = {"data": data, "Attempt": 0, "Status": "succeeded"}
        if isinstance(data, dict) and "fail" in data:
            status |= {"Status": "failed", "error": data["fail"], "retryable": data.get("retryable", True)}
        headers = {"Content-Type": "application/json", "Authorization": BASIC}
        request = urllib.request.Request(RICKOVER + path, json.dumps(status).encode(), headers, method="POST")
        for tries in range(10):
            try:
                urllib.request.urlopen(request, timeout=10).close()
                break
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    break
            except OSError:
                pass
            time.sleep(min(5.0, 0.1 * 2**tries))


def main() -> None:
    for _ in range(8):
        threading.Thread(target=work, daemon=True).start()
    port = int(os.environ.get("DOWNSTREAM_PORT", "9091"))
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Downstream).serve_forever()


if __name__ == "__main__":
    main()
