"""The workers of examples/ that use no package, and the adapter for Rickover, with a server that is made up."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
#: What a test answers to a request: a status and a body, or `None` for the usual answer.
Answer = Callable[[str, Any], tuple[int, Any] | None]


class Server:
    """Hands out the assignments that it is given, one with each claim, and records the endings and other requests."""

    def __init__(self, assignments: list[Any], answer: Answer = lambda _, __: None) -> None:
        self.left, self.answer = assignments, answer
        self.requests: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.url = ""

    @contextmanager
    def run(self) -> Iterator[None]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.removeprefix("/api/v1")
                status, answer = server.answer(path, body) or (200, server.usual(path, body))
                if path != "/assignments" and not path.endswith("/heartbeat"):
                    server.requests.put((path, body))  # before the answer, after which the next request may come
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Listener(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A worker that is killed breaks its connection."""

        with Listener(("127.0.0.1", 0), Handler) as listener:
            self.url = f"http://127.0.0.1:{listener.server_port}"
            threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
            try:
                yield
            finally:
                listener.shutdown()

    def usual(self, path: str, body: Any) -> Any:
        if path == "/assignments":
            if not self.left:
                time.sleep(0.1)  # as a server that waits for work
            return {"assignments": [self.left.pop(0)] if self.left else []}
        for kind in ("heartbeats", "endings"):
            if kind in body:
                return {kind: [{"assignment_id": one["assignment_id"], "status": 200} for one in body[kind]]}
        return {}

    def next(self, ending: str) -> Any:
        """Body of the next request whose path has this ending."""
        while True:
            path, body = self.requests.get(timeout=20)
            if path.endswith(ending):
                return body


def assignment(number: int = 0, heartbeat_seconds: float = 60) -> dict[str, Any]:
    item = {"id": f"item-{number}", "payload": number}
    return {"id": f"assignment-{number}", "item": item, "attempt": 1, "heartbeat_seconds": heartbeat_seconds}


@contextmanager
def worker(server: Server, program: str, work: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs one of the programs, with other work; RabbitMQ is away."""
    source = (EXAMPLES / program).read_text()
    usual = {'return {"letters": len(json.dumps(payload))}', 'return {"echo": payload}'}
    [line] = [line for line in usual if line in source]
    (path / "program.py").write_text(source.replace(line, work))
    (path / "pika.py").write_text(
        "class exceptions:\n    class AMQPError(Exception): pass\n"
        "def URLParameters(url): pass\n"
        "def BlockingConnection(parameters): raise exceptions.AMQPError\n"
    )
    environment = os.environ | {"TREELINE_URL": server.url, "TREELINE_TOKEN": "token"}
    running = subprocess.Popen([sys.executable, "-B", path / "program.py", "t"], env=environment, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait(10)


@pytest.mark.parametrize("program", ["worker/plain.py", "worker-rabbitmq/worker.py"])
def test_work_that_returns_nothing_succeeds_and_work_that_json_cannot_say_fails(program: str, tmp_path: Path) -> None:
    server = Server([assignment(0), assignment(1)])
    with server.run(), worker(server, program, "return object() if payload else None", tmp_path):
        ends = [end(server.next("")) for _ in range(2)]
    assert ends[0]["result"] == {} and ends[1]["error"]["kind"] == "TypeError"


def end(body: Any) -> Any:
    """The ending in the body of a request, which has many or is one."""
    return body["endings"][0] if "endings" in body else body


@pytest.mark.parametrize("status", [413, 422])
@pytest.mark.parametrize("program", ["worker/plain.py", "worker-rabbitmq/worker.py"])
def test_a_refused_result_becomes_a_failure_and_the_worker_goes_on(program: str, status: int, tmp_path: Path) -> None:
    def answer(path: str, body: Any) -> tuple[int, Any] | None:
        return (status, {}) if end(body).get("result") == "large" else None

    server = Server([assignment(0), assignment(1)], answer)
    with server.run(), worker(server, program, "return 'small' if payload else 'large'", tmp_path) as running:
        ends = [end(server.next("")) for _ in range(3)]
        assert running.poll() is None
    assert [one.get("result") for one in ends] == ["large", None, "small"]
    assert ends[1]["error"]["message"] == "The ending was refused." and ends[1]["retryable"] is False


def test_an_ending_that_is_refused_among_others_becomes_a_failure(tmp_path: Path) -> None:
    def answer(path: str, body: Any) -> tuple[int, Any] | None:
        return (200, {"endings": [{"status": 422}]}) if "result" in end(body) else None

    server = Server([assignment()], answer)
    with server.run(), worker(server, "worker/plain.py", "return 'x'", tmp_path):
        ends = [end(server.next("/finish")) for _ in range(2)]
    assert ends[0]["result"] == "x" and ends[1]["error"]["message"] == "The ending was refused."


def test_an_item_of_a_type_with_short_leases_has_heartbeats_after_one_with_long_leases(tmp_path: Path) -> None:
    has_heartbeat = threading.Event()

    def answer(path: str, _: Any) -> tuple[int, Any] | None:
        if path == "/until-heartbeat":
            return 200, {"heard": has_heartbeat.wait(10)}
        if path.endswith("/heartbeat"):
            has_heartbeat.set()
        return None

    # The first one lasts until the thread of the heartbeats has looked at it, which it does each second.
    work = "return time.sleep(2) if payload == 0 else call('/until-heartbeat', {})"
    server = Server([assignment(0, 3600), assignment(1, 1)], answer)
    with server.run(), worker(server, "worker/plain.py", work, tmp_path):
        ends = [end(server.next("/finish")) for _ in range(2)]
    assert [one["result"] for one in ends] == [{}, {"heard": True}]


def test_the_adapter_for_rickover_passes_results_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("adapter", EXAMPLES / "rickover" / "adapter.py")
    assert spec is not None and spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "adapter", adapter)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec.loader.exec_module(adapter)
    server, item = Server([]), "0190a5e0-0000-7000-8000-000000000000"
    with server.run(), http.server.ThreadingHTTPServer(("127.0.0.1", 0), adapter.Adapter) as listener:
        settings = adapter.Adapter.settings = adapter.Settings(server.url, "token", "", "secret")
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        for data, result in ((0, 0), (False, False), ([], []), ("", ""), (None, {}), ({"n": 1}, {"n": 1})):
            settings.held[item] = ("assignment-0", 3)
            url = f"http://127.0.0.1:{listener.server_port}/v1/jobs/t/job_{item}"
            answer = httpx.post(url, json={"status": "succeeded", "data": data}, auth=("jobs", "secret"))
            assert answer.status_code == 200 and server.next("/result") == {"result": result}
        listener.shutdown()
