"""Workers behind a proxy that makes the server fail, or refuse what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from treeline import AsyncClient, Client, Summary, Task, Wait, Worker

from .conftest import Server
from .proxy import Intercept, Lost, proxy


def work(server: Server, intercept: Intercept, job: Any, handler: Callable[[Task], Any]) -> Summary:
    """Runs a worker behind a proxy until a job is complete. Its calls are not sent again by the client."""

    async def run(url: str) -> Summary:
        async with AsyncClient(url, server.token, retry_timeout=0) as behind, AsyncClient(server.url, server.token) as api:
            worker = Worker(behind, [job["type"]], handler, drain_seconds=5)
            running = asyncio.create_task(worker.run_async())
            try:
                await api.wait(job["id"], timeout=60)
            finally:
                worker.stop()
                summary = await running
            return summary

    with proxy(server.url, intercept) as url:
        return asyncio.run(run(url))


def test_a_result_outlives_a_server_that_is_away(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    faults: list[int | None] = [503, 429, 408, None]

    def intercept(path: str, body: Any) -> Any:
        return faults.pop(0) if path.endswith("/assignments/finish") and faults else body

    summary = work(server, intercept, job, lambda task: {"sum": task.payload})
    [item] = client.items(job=job["id"])
    assert (item["state"], item["attempts"]) == ("succeeded", 1)
    assert [line["result"] for line in client.results(job["id"])] == [{"sum": 1}]
    assert summary == Summary(succeeded=1) and not faults


def test_a_result_outlives_a_proxy_that_answers_instead_of_the_server(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    faults: list[int | None] = [404, 403, 401, None]

    def intercept(path: str, body: Any) -> Any:
        return faults.pop(0) if path.endswith("/assignments/finish") and faults else body

    assert work(server, intercept, job, lambda task: {"sum": task.payload}) == Summary(succeeded=1)
    assert [line["result"] for line in client.results(job["id"])] == [{"sum": 1}] and not faults


def test_a_claim_whose_answer_is_lost_costs_no_attempt(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    claims: list[str] = []

    def intercept(path: str, body: Any) -> Any:
        if not path.endswith("/assignments"):
            return body
        claims.append(body["claim_id"])
        return Lost(body) if len(claims) == 1 else 404 if len(claims) == 2 else body

    assert work(server, intercept, job, lambda task: {"sum": task.payload}) == Summary(succeeded=1)
    [item] = client.items(job=job["id"])
    assert (item["state"], item["attempts"], item["failures"]) == ("succeeded", 1, 0)
    assert len(set(claims[:3])) == 1


def test_a_wait_outlives_a_server_that_is_away(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    faults: list[int | None] = [503, 408, None]

    def intercept(path: str, body: Any) -> Any:
        return faults.pop(0) if path.endswith("/wait") and faults else body

    def handle(task: Task) -> None:
        if task.event is None:
            raise Wait("payment", timeout_seconds=0.1)

    summary = work(server, intercept, job, handle)
    [item] = client.items(job=job["id"])
    assert (item["state"], item["failures"]) == ("succeeded", 0)
    assert summary == Summary(succeeded=1, released=1) and not faults


def test_progress_that_is_refused_each_time_costs_neither_the_lease_nor_more_requests(
    server: Server, client: Client, job_type: str
) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    had_progress: list[bool] = []

    def intercept(path: str, body: Any) -> Any:
        if path.endswith("/assignments/heartbeat"):
            [beat] = body["heartbeats"]
            had_progress.append("progress" in beat)
            if "progress" in beat:
                beat["progress"]["done"] = -1  # what the worker itself would not send
        return body

    async def handle(task: Task) -> str:
        # Each heartbeat comes a second after the one before, and a lease is three intervals of three seconds.
        done = 0
        while had_progress.count(False) < 11:
            task.check()
            done += 1
            task.progress(done)
            await asyncio.sleep(0.1)
        return "done"

    assert work(server, intercept, job, handle) == Summary(succeeded=1)
    [item] = client.items(job=job["id"])
    assert (item["state"], item["attempts"]) == ("succeeded", 1)
    pairs = list(zip(had_progress, had_progress[1:]))
    assert (True, False) in pairs and (True, True) not in pairs, "a refused heartbeat is followed by one without progress"


def test_invalid_progress_fails_at_the_line_of_the_handler(server: Server, client: Client, job_type: str) -> None:
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
    raised: list[type[BaseException]] = []

    def handle(task: Task) -> None:
        for wrong in ({"done": 0.5}, {"total": float("nan")}, {"done": "1"}, {"message": 1}):
            with pytest.raises(TypeError, match="expected") as error:
                task.progress(**wrong)  # type: ignore[arg-type]
            raised.append(error.type)
        for out in ({"done": -1}, {"total": 2**53}, {"message": "x" * 1_001}, {"message": "\0"}, {"message": "\ud800"}):
            with pytest.raises(ValueError, match="expected") as refused:
                task.progress(**out)  # type: ignore[arg-type]
            raised.append(refused.type)
        task.progress(0, 2**53 - 1, "é" * 1_000)

    assert work(server, lambda _, body: body, job, handle) == Summary(succeeded=1)
    assert len(raised) == 9


def test_a_count_of_another_library_is_a_count() -> None:
    class Counted:
        def __index__(self) -> int:
            return 3

    async def run() -> None:
        task = Task({"id": "a"}, None, asyncio.get_running_loop())  # type: ignore[arg-type, typeddict-item]
        task.progress(Counted())  # type: ignore[arg-type]
        assert task._progress == {"done": 3}

    asyncio.run(run())
