"""A small HTTP server that stands for a bank, a ledger or a post office, which the workers call.

It does what every downstream of an at-least-once worker must do: a request carries an `Idempotency-Key`, and a second
request with the same key returns the first receipt and has no effect.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import httpx

from treeline import Failure

#: Duration of a request in seconds; a concurrent one on the same account would be counted in that time.
TAKES = 0.005


@dataclass(frozen=True)
class Effect:
    """Side effect of a request."""

    what: str
    account: str
    key: str
    receipt: str


class Downstream:
    """The downstream server."""

    def __init__(self) -> None:
        self.requests = 0
        self.effects: list[Effect] = []
        self.closed: set[str] = set()
        self.most_at_once: Counter[str] = Counter()
        self._in_flight: Counter[str] = Counter()
        self._lock = threading.Lock()
        downstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = downstream._serve(self.path[1:], body["account"], self.headers["Idempotency-Key"])
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()

    def _serve(self, what: str, account: str, key: str) -> tuple[int, dict[str, str]]:
        with self._lock:
            self.requests += 1
            self._in_flight[account] += 1
            self.most_at_once[account] = max(self.most_at_once[account], self._in_flight[account])
        time.sleep(TAKES)
        with self._lock:
            self._in_flight[account] -= 1
            if account in self.closed:
                return 422, {"reason": f"account {account} is closed"}
            for effect in self.effects:
                if effect.key == key:
                    return 200, {"receipt": effect.receipt}
            receipt = f"{what}-{len(self.effects) + 1}"
            self.effects.append(Effect(what, account, key, receipt))
            return 200, {"receipt": receipt}


def order(url: str, what: str, account: str, key: str) -> str:
    """Sends a request and returns its receipt. The same key returns the same receipt."""
    try:
        answer = httpx.post(f"{url}/{what}", json={"account": account}, headers={"Idempotency-Key": key})
    except httpx.TransportError as error:
        raise Failure(str(error), kind="downstream_away") from error
    if answer.status_code == 422:
        raise Failure(answer.json()["reason"], kind="downstream_refused", retryable=False)
    return str(answer.json()["receipt"])
