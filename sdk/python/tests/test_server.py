"""Scenarios against a real server."""

from __future__ import annotations

import asyncio
import http.server
import os
import queue
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from treeline import ApiError, AsyncClient, Client, Failure, Release, Summary, Task, Wait, Worker, webhooks

from .conftest import Server


def work(
    server: Server,
    job_type: str,
    handler: Callable[[Task], Any],
    until: Callable[[AsyncClient], Awaitable[Any]],
    **options: Any,
) -> Summary:
    """Runs a worker until something has happened."""

    async def run() -> Summary:
        async with AsyncClient(server.url, server.token) as client:
            worker = Worker(client, [job_type], handler, **{"concurrency": 4, "drain_seconds": 5, **options})
            running = asyncio.create_task(worker.run_async())
            try:
                await asyncio.wait_for(until(client), 30)
            finally:
                worker.stop()
                summary = await running
            return summary

    return asyncio.run(run())


def complete(job_id: str) -> Callable[[AsyncClient], Awaitable[Any]]:
    return lambda client: client.wait(job_id, timeout=30)


def test_a_job_is_created_once_and_its_items_are_worked_on(server: Server, client: Client, job_type: str) -> None:
    key = secrets.token_hex(8)
    new = {"type": job_type, "name": "sums", "items": [{"payload": {"a": n, "b": 1}} for n in range(20)]}
    job = client.create_job(new, key=key)
    assert client.create_job(new, key=key)["id"] == job["id"]
    added = client.add_items(job["id"], [{"payload": {"a": 20, "b": 1}}], seal=True)
    assert (added["accepted"], added["sealed"]) == (1, True)

    def add(task: Task) -> int:
        task.progress(1, 1, "adding")
        total: int = task.payload["a"] + task.payload["b"]
        return total

    summary = work(server, job_type, add, complete(job["id"]))
    done = client.job(job["id"])
    assert done["tree"]["outcome"] == "succeeded"
    assert summary == Summary(succeeded=21)
    assert sorted(line["result"] for line in client.results(job["id"])) == list(range(1, 22))
    assert job["id"] in [one["id"] for one in client.jobs(type=job_type)]
    assert len([one["id"] for one in client.items(job=job["id"], limit=7)]) == 21


def test_failures_have_their_kinds_and_retries(server: Server, client: Client, job_type: str) -> None:
    items = [{"payload": word} for word in ("broken", "flaky", "bad", "nul", "given back")]
    job = client.create_job({"type": job_type, "sealed": True, "items": items})
    seen: list[tuple[str, int]] = []

    async def handle(task: Task) -> dict[str, str]:
        seen.append((task.payload, task.attempt))
        match task.payload:
            case "broken":
                raise Failure("never", kind="contract", detail={"missing": ["x"]}, retryable=False)
            case "flaky" if task.attempt == 1:
                raise ValueError("not now")
            case "bad":
                return {"not": object()}  # type: ignore[dict-item]
            case "nul":
                return {"text": "\0"}
            case "given back" if task.attempt == 1:
                raise Release()
        return {"word": task.payload}

    summary = work(server, job_type, handle, complete(job["id"]))
    failed = {line["payload"]: line["error"] for line in client.failures(job["id"])}
    assert set(failed) == {"broken", "bad", "nul"}
    assert (failed["broken"]["kind"], failed["broken"]["detail"]) == ("contract", {"missing": ["x"]})
    assert "result was refused" in failed["bad"]["message"]
    assert "result was refused: 422 invalid_body at /endings/" in failed["nul"]["message"]
    assert ("flaky", 2) in seen and ("given back", 2) in seen and ("broken", 2) not in seen
    assert summary == Summary(succeeded=2, failed=4, released=1)


def test_a_handler_waits_for_an_event_and_gets_it(server: Server, client: Client, job_type: str) -> None:
    payloads = ["paid", "late", "wrong"]
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": word} for word in payloads]})
    items = {item["payload"]: item["id"] for item in client.items(job=job["id"])}

    def handle(task: Task) -> Any:
        if task.event is not None:
            return {"attempt": task.attempt, "timed_out": task.event["timed_out"], "data": task.event["data"]}
        match task.payload:
            case "paid":
                raise Wait("payment", timeout_seconds=3_600)
            case "late":
                raise Wait("payment", timeout_seconds=0.1)
            case _:
                raise Wait("payment", form={"fields": [{"name": "", "type": "string"}]})

    async def pay(client: AsyncClient) -> None:
        while True:
            waiting = await client.item(items["paid"])
            if waiting["state"] == "waiting_for_event":
                break
            await asyncio.sleep(0.05)
        assert waiting["wait"] is not None and waiting["wait"]["name"] == "payment"
        await client.send_event(items["paid"], "payment", {"receipt": 7})
        await client.wait(job["id"], timeout=30)

    summary = work(server, job_type, handle, pay)
    results = {line["payload"]: line["result"] for line in client.results(job["id"])}
    assert results == {
        "paid": {"attempt": 2, "timed_out": False, "data": {"receipt": 7}},
        "late": {"attempt": 2, "timed_out": True, "data": None},
    }
    [refused] = client.failures(job["id"])
    assert refused["payload"] == "wrong" and "The wait was refused" in refused["error"]["message"]
    assert summary == Summary(succeeded=2, failed=1, released=2)


def test_steps_and_logs_reach_the_next_attempt_and_the_item(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    steps: list[Any] = []

    def handle(task: Task) -> None:
        steps.append(task.last_step)
        task.log(f"attempt {task.attempt}", "warn", number=task.attempt)
        if task.attempt == 1:
            task.step("charged", {"receipt": 7})
            raise Failure("crash", retry_after_seconds=0)

    work(server, job_type, handle, complete(job["id"]))
    assert steps == [None, {"name": "charged", "data": {"receipt": 7}}]
    [item] = client.items(job=job["id"])
    log = client.request("GET", f"/items/{item['id']}/logs", params={"attempt": 1})["data"]
    assert [(line["message"], line["level"], line["fields"]) for line in log] == [("attempt 1", "warn", {"number": 1})]


def test_a_canceled_job_stops_its_handler(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    began, stopped = threading.Event(), threading.Event()

    async def handle(task: Task) -> None:
        began.set()
        await task.stopped()
        stopped.set()
        task.check()

    async def cancel(api: AsyncClient) -> None:
        await asyncio.to_thread(began.wait, 20)
        await api.cancel(job["id"])
        await api.wait(job["id"], timeout=20)

    work(server, job_type, handle, cancel)
    assert stopped.is_set()
    assert client.job(job["id"])["tree"]["outcome"] == "cancelled"


def test_heartbeats_keep_long_work_and_report_its_progress(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    done = threading.Event()

    def handle(task: Task) -> str:
        task.progress(3, 10, "third")
        assert done.wait(20)
        return "kept"

    async def watch(api: AsyncClient) -> None:
        # Longer than a lease, which is three intervals of three seconds.
        ends = asyncio.get_running_loop().time() + 10
        shown: Any = None
        while asyncio.get_running_loop().time() < ends or shown is None:
            async for item in api.items(job=job["id"]):
                shown = (await api.item(item["id"])).get("progress") or shown
            await asyncio.sleep(0.2)
        assert (shown["done"], shown["total"], shown["message"]) == (3, 10, "third")
        done.set()
        await api.wait(job["id"], timeout=20)

    work(server, job_type, handle, watch)
    [item] = client.items(job=job["id"])
    assert (item["state"], item["attempts"]) == ("succeeded", 1)


def test_a_program_leaves_on_sigterm_and_gives_back_what_it_holds(
    server: Server, client: Client, job_type: str, tmp_path: Path
) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": "slow"}, {"payload": "quick"}]})
    program = tmp_path / "worker.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, sys
            from treeline import AsyncClient, Worker

            async def handle(task):
                print("began", task.payload, flush=True)
                if task.payload == "slow":
                    await asyncio.sleep(60)

            worker = Worker(AsyncClient(), [sys.argv[1]], handle, concurrency=2, drain_seconds=0.2, grace_seconds=0.2)
            print(worker.run(), flush=True)
            """
        )
    )
    environment = os.environ | {"TREELINE_URL": server.url, "TREELINE_TOKEN": server.token}
    command = [sys.executable, str(program), job_type]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert {process.stdout.readline(), process.stdout.readline()} == {"began slow\n", "began quick\n"}
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and "succeeded=1, failed=0, released=1" in rest
    states = {item["payload"] if "payload" in item else item["id"]: item["state"] for item in client.items(job=job["id"])}
    assert sorted(states.values()) == ["available", "succeeded"]


def test_a_file_is_uploaded_in_pieces_and_imported(
    server: Server, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treeline.client.CHUNK", 1_000)
    path = tmp_path / "people.csv"
    path.write_text("id,name\n" + "".join(f"{n},person {n}\n" for n in range(500)))
    sent: list[tuple[int, int]] = []
    job = client.import_file(path, "import", progress=lambda so_far, total: sent.append((so_far, total)))
    assert len(sent) > 3 and sent[-1] == (path.stat().st_size, path.stat().st_size)
    states = [state["tree"]["status"] for state in client.watch(job["id"])]
    assert states[-1] == "completed"
    assert client.job(job["id"])["counts"]["succeeded"] == 500
    assert next(iter(client.results(job["id"])))["result"] == {"id": "0", "name": "person 0"}


def test_a_completion_webhook_verifies(client: Client, job_type: str) -> None:
    received: queue.Queue[tuple[bytes, dict[str, str]]] = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((body, dict(self.headers)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{receiver.server_address[1]}/done"
        hook = {"url": url, "secret": "a-secret-of-the-test"}
        job = client.create_job({"type": job_type, "sealed": True, "on_completed": hook})
        body, headers = received.get(timeout=20)
    finally:
        receiver.shutdown()
    event = webhooks.verify(body, headers, "a-secret-of-the-test")
    assert (event["type"], event["data"]["job_id"]) == ("tree.completed", job["id"])


def test_errors_name_the_field_and_the_code(client: Client) -> None:
    with pytest.raises(ApiError) as raised:
        client.create_job({"type": "no-such-type", "color": 1})
    assert raised.value.status == 422 and raised.value.code
    with pytest.raises(ApiError) as raised:
        client.job("01900000-0000-7000-8000-000000000000")
    assert (raised.value.status, raised.value.code) == (404, "not_found")
    with pytest.raises(ApiError) as raised:
        Client(client.url, "wrong" * 10).me()
    assert raised.value.status == 401


def test_a_server_that_restarts_loses_no_result(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": n} for n in range(4)]})
    began = threading.Semaphore(0)
    done = threading.Event()

    def handle(task: Task) -> int:
        began.release()
        assert done.wait(30)
        number: int = task.payload
        return number

    async def restart(api: AsyncClient) -> None:
        for _ in range(4):
            await asyncio.to_thread(began.acquire)
        await asyncio.to_thread(server.stop)
        done.set()
        await asyncio.to_thread(server.start)
        await api.wait(job["id"], timeout=30)

    work(server, job_type, handle, restart)
    assert sorted(line["result"] for line in client.results(job["id"])) == [0, 1, 2, 3]
