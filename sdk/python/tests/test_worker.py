"""Workers of a server that is made up."""

from __future__ import annotations

import asyncio
import datetime
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from treeline import Failure, Release, Summary, Task, Worker

from .fake import FakeServer

SHORT: dict[str, Any] = {"drain_seconds": 0.05, "grace_seconds": 0.05}


def test_functions_run_all_at_once_and_leave_the_event_loop_its_threads() -> None:
    server = FakeServer(50)
    together = threading.Barrier(50, timeout=10)

    def handle(task: Task) -> None:
        if task.payload == 0:  # the loop can still look up a host name
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(looked_up(), 5), task._loop).result()
        together.wait()

    async def looked_up() -> None:
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)

    summary = asyncio.run(server.run(handle, lambda: len(server.sent("/finish")) > 0, concurrency=50))
    assert summary == Summary(succeeded=50)


def recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("detail", [{"at": datetime.datetime.now()}, recursive(), float("nan"), "\ud800"])
def test_a_failure_whose_detail_cannot_be_sent_is_sent_without_it(detail: Any) -> None:
    def answer(path: str, body: Any) -> httpx.Response | None:
        is_refused = path.endswith("/finish") and "detail" in body["endings"][0]["error"]
        return httpx.Response(422, json={"code": "invalid_body"}) if is_refused else None

    def handle(_: Task) -> None:
        raise Failure("card declined", kind="declined", detail=detail, retryable=False, retry_after_seconds=5)

    server = FakeServer(answer=answer)
    summary = asyncio.run(server.run(handle, lambda: accepted(server) is not None))
    assert summary == Summary(failed=1)
    ending = accepted(server)
    assert ending is not None and ending["error"]["message"].startswith("card declined (the detail was refused: ")
    assert (ending["error"]["kind"], ending["retryable"], ending["retry_after_seconds"]) == ("declined", False, 5)


def accepted(server: FakeServer) -> dict[str, Any] | None:
    endings = [ending for body in server.sent("/finish") for ending in body["endings"] if "detail" not in ending["error"]]
    return endings[0] if endings else None


def test_a_failure_is_cut_to_what_the_server_takes() -> None:
    def handle(task: Task) -> None:
        given: list[Callable[[], BaseException]] = [
            lambda: Failure("", kind="", retry_after_seconds=-1),
            lambda: Failure("\0\ud800" + "x" * 70_000, kind="k" * 300, retry_after_seconds=float("nan")),
            lambda: Failure("late", retry_after_seconds=1e12),
            lambda: ValueError("\0" * 70_000),
            lambda: Release(-1),
        ]
        raise given[task.payload]()

    server = FakeServer(5)

    def endings() -> list[Any]:
        return [ending for body in server.sent("/finish") for ending in body["endings"]]

    summary = asyncio.run(server.run(handle, lambda: len(endings()) == 4 and bool(server.sent("/release")), concurrency=5))
    assert summary == Summary(failed=4, released=1)
    empty, long, late, other = sorted(endings(), key=lambda ending: ending["assignment_id"])
    assert empty["error"] == {"message": "The handler failed without a message."} and empty["retry_after_seconds"] == 0
    assert long["error"] == {"message": "\ufffd\ufffd" + "x" * 65_534, "kind": "k" * 255}
    assert "retry_after_seconds" not in long and late["retry_after_seconds"] == 315_360_000
    assert other["error"] == {"message": "\ufffd" * 65_536, "kind": "ValueError"}
    assert server.sent("/release") == [{"retry_after_seconds": 0}]


def test_a_result_that_is_too_deep_is_a_failure() -> None:
    def handle(_: Task) -> Any:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        return deep

    server = FakeServer()
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")))) == Summary(failed=1)


@pytest.mark.parametrize("is_canceled", [True, False])
def test_an_item_stays_with_the_worker_until_its_function_has_ended(is_canceled: bool) -> None:
    began, finish = threading.Event(), threading.Event()

    def answer(path: str, body: Any) -> dict[str, Any] | None:
        if path.endswith("/heartbeat") and len(server.sent("/heartbeat")) > 6:  # long after the grace
            finish.set()
        beat = {"assignment_id": "assignment-0", "status": 200, "cancel": is_canceled}
        return {"heartbeats": [beat]} if path.endswith("/heartbeat") else None

    def handle(_: Task) -> str:
        began.set()
        assert finish.wait(10)
        return "written"

    server = FakeServer(heartbeat_seconds=0.1, answer=answer)
    until = finish if is_canceled else began
    assert asyncio.run(server.run(handle, until.is_set, **SHORT)) == Summary(succeeded=1)
    assert [body["endings"][0]["result"] for body in server.sent("/finish")] == ["written"]
    assert not server.sent("/release")


def test_a_worker_that_must_leave_at_once_leaves_the_lease_of_a_function_to_its_end() -> None:
    began, finish = threading.Event(), threading.Event()

    def handle(_: Task) -> None:
        began.set()
        finish.wait(10)

    async def run(server: FakeServer) -> Summary:
        async with server.client() as client:
            worker = Worker(client, ["t"], handle, **SHORT)
            running = asyncio.create_task(worker.run_async())
            await asyncio.to_thread(began.wait, 10)
            worker.stop()
            await asyncio.wait({running}, timeout=0.3)
            assert not running.done()
            worker.stop(at_once=True)
            return await asyncio.wait_for(running, 5)

    server = FakeServer()
    try:
        assert asyncio.run(run(server)) == Summary(lost=1)
    finally:
        finish.set()
    assert not server.sent("/release") and not server.sent("/finish")


def test_an_item_that_is_delivered_at_most_once_is_not_given_back_after_it_has_begun() -> None:
    began = threading.Event()

    async def stopped(task: Task) -> None:
        began.set()
        await asyncio.sleep(60)

    async def checks(task: Task) -> None:
        began.set()
        await task.stopped()
        task.check()

    async def gives_back(_: Task) -> None:
        began.set()
        raise Release

    def answer(path: str, _: Any) -> httpx.Response | None:
        return httpx.Response(409, json={"code": "already_started"}) if path.endswith("/release") else None

    for handle, releases in ((stopped, 0), (checks, 0), (gives_back, 1)):
        began.clear()
        server = FakeServer(answer=answer, delivery="at_most_once")
        assert asyncio.run(server.run(handle, began.is_set, **SHORT)) == Summary(failed=1)
        [body] = server.sent("/finish")
        assert body["endings"][0]["error"]["kind"] == "worker_stopped"
        assert len(server.sent("/release")) == releases


def test_a_coroutine_that_has_stopped_is_given_back() -> None:
    async def handle(_: Task) -> None:
        began.set()
        await asyncio.sleep(60)

    began = threading.Event()
    server = FakeServer(delivery="at_least_once")
    assert asyncio.run(server.run(handle, began.is_set, **SHORT)) == Summary(released=1)


def test_a_handler_whose_heartbeats_are_not_answered_is_stopped_before_its_lease_ends() -> None:
    times: list[float] = []

    async def answer_late(path: str, _: Any) -> None:
        if path.endswith("/heartbeat"):
            await asyncio.sleep(30)

    async def handle(task: Task) -> None:
        times.append(time.monotonic())
        await task.stopped()
        times.append(time.monotonic())

    server = FakeServer(heartbeat_seconds=0.4, before=answer_late)
    assert asyncio.run(server.run(handle, lambda: len(times) == 2, **SHORT)) == Summary(lost=1)
    assert times[1] - times[0] < 1.2
    assert len(server.sent("/heartbeat")) >= 2, "another one is sent after the first"


def test_a_worker_looks_for_work_by_itself_while_rabbitmq_is_away() -> None:
    server = FakeServer(5)
    options: dict[str, Any] = {"amqp_url": "amqp://127.0.0.1:1"}
    assert asyncio.run(server.run(lambda _: 1, lambda: len(server.sent("/finish")) == 5, **options)) == Summary(succeeded=5)
    assert {body.get("wait_seconds") for body in server.sent("/assignments")[:5]} == {5}


def test_a_worker_that_rabbitmq_wakes_looks_once_at_the_start_and_again_while_there_is_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, wakes_of_worker = FakeServer(3), []

    async def listen(_: str, __: Any, wakes: Any) -> None:
        wakes.is_attached = True
        wakes_of_worker.append(wakes)
        await asyncio.Event().wait()

    async def handle(task: Task) -> None:
        for done in range(100):
            task.progress(done)
        if task.payload == 0:
            await asyncio.sleep(0.3)  # the last one: nothing is claimed meanwhile
            await wakes_of_worker[0].put("item-7")

    monkeypatch.setattr("treeline._rabbitmq.listen", listen)
    named = [{"types": [], "item_ids": ["item-7"]}]

    def until() -> bool:
        return [{name: body.get(name) for name in named[0]} for body in server.sent("/assignments")[-1:]] == named

    options: dict[str, Any] = {"amqp_url": "amqp://127.0.0.1:1", "concurrency": 2}
    assert asyncio.run(server.run(handle, until, **options)) == Summary(succeeded=3)
    assert len(server.sent("/assignments")) <= 7, server.sent("/assignments")


def test_signals_reach_a_worker_whose_loop_knows_none() -> None:
    async def run(server: FakeServer) -> Summary:
        loop = asyncio.get_running_loop()

        def refuse(*_: object) -> None:
            raise NotImplementedError  # as on Windows

        loop.add_signal_handler = refuse  # type: ignore[method-assign]
        async with server.client() as client:
            running = asyncio.create_task(Worker(client, ["t"], lambda _: 1).run_async(signals=True))
            while not server.sent("/finish"):
                await asyncio.sleep(0.01)
            signal.raise_signal(signal.SIGTERM)
            return await asyncio.wait_for(running, 5)

    before = signal.getsignal(signal.SIGTERM)
    assert asyncio.run(run(FakeServer())) == Summary(succeeded=1)
    assert signal.getsignal(signal.SIGTERM) is before
