#!/usr/bin/env python3
"""Lets workers that were written for Rickover work for Treeline, unchanged.

Treeline posts each item of a type here (`push`). The adapter posts it to the worker as Rickover's dequeuer did, and ends
the item when the worker posts its status, to this address as it did to Rickover's. One name and password are used on all
sides (Basic authentication). Standard library only.
"""

from __future__ import annotations

import base64
import hmac
import http.server
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

#: Path of a job in Rickover's API. Here its id is that of the item, in every attempt.
JOB = re.compile(r"/v1/jobs/([^/]+)/job_([0-9a-f-]{36})")
#: Most bytes of a body.
MAX_BODY = 10 << 20


@dataclass
class Settings:
    treeline: str
    token: str
    downstream: str
    password: str
    attempts: int = 3
    #: Assignment and remaining attempts of each item that a worker has.
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"jobs:{self.password}".encode()).decode()


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as the answer: the page that it leads to, such as a form to sign in, has accepted nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER = urllib.request.build_opener(NoRedirects)


def post(url: str, body: Any, authorization: str) -> tuple[int, dict[str, str]]:
    """Posts JSON. Returns the status, 503 if nobody answers, and the headers. Follows no redirects."""
    headers = {"Content-Type": "application/json", "Authorization": authorization}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with OPENER.open(request, timeout=30) as response:
            return response.status, dict(response.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)
    except OSError:
        return 503, {}


class Adapter(http.server.BaseHTTPRequestHandler):
    settings: Settings
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            self.close_connection = True
            return self.answer(413, "the body is too large")
        text = self.rfile.read(length)
        if not hmac.compare_digest(self.headers.get("Authorization", ""), self.settings.basic):
            return self.answer(401, "wrong name or password", {"WWW-Authenticate": 'Basic realm="jobs"'})
        try:
            body = json.loads(text)
        except ValueError:
            return self.answer(400, "expected JSON")
        if not isinstance(body, dict):
            return self.answer(400, "expected an object")
        if self.path == "/push":
            return self.push(body)
        if path := JOB.fullmatch(self.path):
            return self.status(path[2], body)
        self.answer(404, "there is nothing here")

    def push(self, item: dict[str, Any]) -> None:
        """An item from Treeline: to the worker."""
        settings = self.settings
        remaining = max(1, settings.attempts - item["attempt"] + 1)
        # First, because the status may come before the worker has answered.
        with settings.lock:
            settings.held[item["item_id"]] = (item["assignment_id"], remaining)
        url = f"{settings.downstream}/v1/jobs/{item['type']}/job_{item['item_id']}"
        status, headers = post(url, {"data": item["payload"], "attempts": remaining}, settings.basic)
        if not 200 <= status < 300:
            with settings.lock:
                if settings.held.get(item["item_id"], ("",))[0] == item["assignment_id"]:
                    del settings.held[item["item_id"]]
            again = {name: value for name, value in headers.items() if name.lower() == "retry-after"}
            return self.answer(status, f"the worker answered {status}", again)
        self.answer(202, "accepted")

    def status(self, item_id: str, body: dict[str, Any]) -> None:
        """A status from the worker: to Treeline. Workers in Go send the names of fields with capitals."""
        settings, said = self.settings, {name.lower(): value for name, value in body.items()}
        with settings.lock:
            assignment, remaining = settings.held.get(item_id, ("", 0))
        if not assignment:
            return self.answer(404, "no worker has this job")
        # A status of an earlier attempt; 0 comes from workers that do not say.
        if said.get("attempt") not in (None, 0, remaining):
            return self.answer(400, "this attempt is over")
        if said.get("status") == "succeeded":
            ending, sent = "result", {"result": {} if said.get("data") is None else said["data"]}
        elif said.get("status") == "failed":
            error = {"message": said.get("error") or "The worker reported a failure.", "kind": "downstream"}
            ending, sent = "failure", {"error": error, "retryable": said.get("retryable", True)}
        else:
            return self.answer(400, "status: expected succeeded or failed")
        url = f"{settings.treeline}/api/v1/assignments/{assignment}/{ending}"
        status, headers = post(url, sent, f"Bearer {settings.token}")
        # Only a problem document is a refusal of Treeline: a 404 may be of a proxy that is being reloaded.
        types = [value for name, value in headers.items() if name.lower() == "content-type"]
        is_accepted = status == 200 and types == ["application/json"]
        is_answer = is_accepted or status == 413 or types == ["application/problem+json"]
        if status >= 500 or status == 429 or not is_answer:
            return self.answer(503, "Treeline is busy or away; send it again")
        with settings.lock:
            if settings.held.get(item_id, ("",))[0] == assignment:
                del settings.held[item_id]
        self.answer(200 if status == 200 else 400, "accepted" if status == 200 else "this attempt is over")

    def answer(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"status" if status < 300 else "title": text}).encode()
        # 202 without JSON of a result: the item is ended later.
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        print(self.address_string(), format % args, file=sys.stderr)


def main() -> None:
    Adapter.settings = Settings(
        treeline=os.environ.get("TREELINE_URL", "http://127.0.0.1:3000"),
        token=os.environ["TREELINE_TOKEN"],
        downstream=os.environ.get("DOWNSTREAM_URL", "http://127.0.0.1:9091"),
        password=os.environ["DOWNSTREAM_PASSWORD"],
        attempts=int(os.environ.get("DOWNSTREAM_ATTEMPTS", "3")),
    )
    port = int(os.environ.get("ADAPTER_PORT", "9090"))
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Adapter).serve_forever()


if __name__ == "__main__":
    main()
