"""Workers of a server that is made up."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from treeline import ApiError, Cancelled, Failure, Release, Summary, Task, Wait, Worker
from treeline._assignment import Assigned
from treeline.worker import MOST_RELEASES

from .fake import FakeServer, problem

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
        return problem(422, "invalid_body") if is_refused else None

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


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def test_a_result_that_is_too_deep_is_a_failure() -> None:
    server = FakeServer()
    assert asyncio.run(server.run(lambda _: deep(), lambda: bool(server.sent("/finish")))) == Summary(failed=1)


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
        return problem(409, "already_started") if path.endswith("/release") else None

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
    # What it returns is reported, as by the other workers: it was dropped, although only Treeline knows whether the lease is over.
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")), **SHORT)) == Summary(succeeded=1)
    assert times[1] - times[0] < 1.2
    assert len(server.sent("/heartbeat")) >= 2, "another one is sent after the first"


@pytest.mark.parametrize("is_lost", [True, False])
def test_the_item_of_a_handler_that_fails_when_stopped_is_released_unless_that_is_unsafe(is_lost: bool) -> None:
    cases: list[tuple[Exception, str, Summary]] = [
        (RuntimeError("the pool is closed"), "at_least_once", Summary(released=1)),
        (Failure("the pool is closed"), "at_least_once", Summary(released=1)),
        (Failure("the bank is busy", retry_after_seconds=60), "at_least_once", Summary(released=1)),
        (Failure("declined", retryable=False), "at_least_once", Summary(failed=1)),
        (Failure("the account is closed", cancel_tree=True), "at_least_once", Summary(failed=1)),
        (RuntimeError("the pool is closed"), "at_most_once", Summary(failed=1)),
    ]
    for error, delivery, summary in cases:
        began = threading.Event()

        async def handle(task: Task, began: threading.Event = began, error: Exception = error) -> None:
            began.set()
            await task.stopped()
            raise error

        def away(path: str, _: Any) -> httpx.Response | None:
            return httpx.Response(502) if is_lost and path.endswith("/heartbeat") else None

        server = FakeServer(heartbeat_seconds=0.2 if is_lost else 60.0, answer=away, delivery=delivery)

        def until(server: FakeServer = server, began: threading.Event = began) -> bool:
            return bool(server.sent("/release") or server.sent("/finish")) if is_lost else began.is_set()

        assert asyncio.run(server.run(handle, until, drain_seconds=0.05, grace_seconds=5.0)) == summary, (error, delivery)
        if isinstance(error, Failure) and error.retry_after_seconds is not None:
            assert server.sent("/release") == [{"retry_after_seconds": 60}]


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


def test_a_claim_is_sent_again_with_its_id_until_it_is_answered() -> None:
    async def lose(path: str, _: Any) -> None:
        if path == "/assignments" and len(server.sent("/assignments")) == 1:
            raise httpx.ReadError("the answer was lost")

    answers = [httpx.Response(404, text="404 page not found"), httpx.Response(401), problem(503, "busy"), {"status": "ok"}]

    def answer(path: str, _: Any) -> Any:
        return answers.pop(0) if path == "/assignments" and answers else None

    server = FakeServer(before=lose, answer=answer, retry_timeout=0)
    assert asyncio.run(server.run(lambda _: 1, lambda: len(server.sent("/assignments")) > 6)) == Summary(succeeded=1)
    claims = [body["claim_id"] for body in server.sent("/assignments")]
    assert len(set(claims[:6])) == 1 and claims[5] != claims[6]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_claim_that_is_answered_late_is_confirmed_before_its_work_begins(is_over: bool) -> None:
    heartbeats: list[int] = []

    async def answer_late(path: str, _: Any) -> None:
        if path == "/assignments" and len(server.sent("/assignments")) == 1:
            await asyncio.sleep(1)

    def answer(path: str, body: Any) -> dict[str, Any] | None:
        is_refused = is_over and path.endswith("/heartbeat")
        return {"heartbeats": [{"assignment_id": "assignment-0", "status": 409}]} if is_refused else None

    def handle(_: Task) -> None:
        heartbeats.append(len(server.sent("/heartbeat")))

    server = FakeServer(heartbeat_seconds=0.5, before=answer_late, answer=answer)
    until = "/heartbeat" if is_over else "/finish"
    summary = asyncio.run(server.run(handle, lambda: bool(server.sent(until))))
    assert summary == (Summary(lost=1) if is_over else Summary(succeeded=1))
    assert heartbeats == ([] if is_over else [1])


def test_a_result_outlives_a_proxy_that_answers_instead_of_the_server() -> None:
    answers = [
        httpx.Response(404, text="404 page not found"),
        httpx.Response(403, json={"code": "forbidden"}),
        httpx.Response(302, headers={"Location": "/login"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={}),
    ]

    def answer(path: str, _: Any) -> httpx.Response | None:
        return answers.pop(0) if path.endswith("/finish") and answers else None

    server = FakeServer(answer=answer, retry_timeout=0)
    assert asyncio.run(server.run(lambda _: "paid", lambda: len(server.sent("/finish")) == 6)) == Summary(succeeded=1)
    assert {body["endings"][0].get("result") for body in server.sent("/finish")} == {"paid"}


def blocked(path: str, body: Any) -> httpx.Response | None:
    """Answer of a firewall to everything that mentions a table."""
    return httpx.Response(403, text="blocked by the firewall") if "drop table" in str(body) else None


def ends(server: FakeServer) -> list[Any]:
    return [one for body in server.sent("/finish") for one in body["endings"]]


def refused(server: FakeServer) -> list[Any]:
    """Failures that were reported in place of endings which were refused on the way."""
    return [one for one in ends(server) if one.get("error", {}).get("kind") == "answer_refused"]


def has_free_place(server: FakeServer) -> bool:
    """True if the only item that a worker holds is off its hands."""
    return len(server.sent("/assignments")) > 1


def test_a_result_that_never_reaches_the_server_holds_up_no_other_and_becomes_a_failure_without_it() -> None:
    """It was left to its lease, although heartbeats renewed it: the work ran again, on another worker."""

    async def handle(task: Task) -> str:
        return "drop table" if task.payload == 1 else "fine"

    server = FakeServer(3, heartbeat_seconds=0.2, answer=blocked)
    summary = asyncio.run(server.run(handle, lambda: bool(refused(server)), concurrency=3))
    assert summary == Summary(succeeded=2, failed=1)
    [ending] = [one for one in ends(server) if "error" in one]
    message = "The answer was refused on the way to Treeline with status 403."
    assert ending["error"] == {"message": message, "kind": "answer_refused"} and ending["retryable"] is False


@pytest.mark.parametrize("end", [Failure("drop table", detail="x", retry_after_seconds=5), Wait("drop table")])
def test_a_failure_or_a_wait_that_never_reaches_the_server_becomes_a_failure_without_content(end: BaseException) -> None:
    def handle(_: Task) -> None:
        raise end

    server = FakeServer(heartbeat_seconds=0.3, answer=blocked)
    assert asyncio.run(server.run(handle, lambda: bool(refused(server)))) == Summary(failed=1)
    [ending] = refused(server)
    assert "drop table" not in str(ending) and ending["retryable"] is isinstance(end, Failure)
    assert ending.get("retry_after_seconds") == (5 if isinstance(end, Failure) else None)


def test_an_ending_outlives_an_outage_that_is_longer_than_its_lease() -> None:
    """A 404 of the proxy that came after the time of a lease made the worker drop it, although leases outlast an outage."""

    def answer(path: str, _: Any) -> httpx.Response | None:
        if len(server.sent("/heartbeat")) > 20:  # one each 0.08 s, and a lease is 0.9 s
            return None
        faults = {"/heartbeat": httpx.Response(503), "/finish": httpx.Response(404, text="404 page not found")}
        return next((fault for ending, fault in faults.items() if path.endswith(ending)), None)

    server = FakeServer(heartbeat_seconds=0.3, answer=answer)
    assert asyncio.run(server.run(lambda _: "paid", lambda: has_free_place(server))) == Summary(succeeded=1)
    assert {one.get("result") for one in ends(server)} == {"paid"}


def test_an_ending_is_given_up_when_a_heartbeat_says_that_its_assignment_is_closed() -> None:
    def answer(path: str, body: Any) -> Any:
        closed = {"heartbeats": [{"assignment_id": "assignment-0", "status": 409}]}
        return closed if path.endswith("/heartbeat") else blocked(path, body)

    server = FakeServer(heartbeat_seconds=0.1, answer=answer)
    assert asyncio.run(server.run(lambda _: "drop table", lambda: has_free_place(server))) == Summary(lost=1)
    assert {one.get("result") for one in ends(server)} == {"drop table"}


def test_a_release_is_sent_until_it_is_answered() -> None:
    answers = [httpx.Response(503), httpx.Response(404), httpx.ReadError("broken off"), problem(503, "busy")]

    def answer(path: str, _: Any) -> Any:
        fault = answers.pop(0) if path.endswith("/release") and answers else None
        if isinstance(fault, httpx.TransportError):
            raise fault
        return fault

    def handle(_: Task) -> None:
        raise Release

    server = FakeServer(answer=answer, retry_timeout=0)
    assert asyncio.run(server.run(handle, lambda: len(server.sent("/release")) == 5)) == Summary(released=1)


def assigned() -> Assigned:
    task = Task({"id": "a", "heartbeat_seconds": 60}, None, asyncio.new_event_loop())  # type: ignore[arg-type, typeddict-item]
    return Assigned.of(task, 0, 0)


def test_an_ending_loses_its_content_only_if_it_is_the_only_thing_that_is_refused() -> None:
    held = assigned()
    assert not held.report_unanswered(10, is_foreign=True) and not held.report_unanswered(300, is_foreign=True)
    held.beat_accepted(300, None)
    assert not held.report_unanswered(301, is_foreign=True), "after an outage"
    assert not held.report_unanswered(301, is_foreign=False) and not held.report_unanswered(302, is_foreign=True)
    held.beat_accepted(420, None)
    assert not held.report_unanswered(481, is_foreign=True), "counted anew since 302"
    assert held.report_unanswered(482, is_foreign=True)
    assert not held.report_unanswered(483, is_foreign=True), "once"


def test_progress_that_is_refused_on_the_way_costs_neither_the_lease_nor_the_progress() -> None:
    with_progress: list[bool] = []
    is_blocked = True

    def answer(path: str, body: Any) -> httpx.Response | None:
        if path.endswith("/heartbeat"):
            with_progress.append("progress" in body["heartbeats"][0])
        return blocked(path, body) if is_blocked else None

    async def handle(task: Task) -> str:
        nonlocal is_blocked
        task.progress(message="drop table")
        async with asyncio.timeout(15):
            while with_progress.count(False) < 8:  # a lease is three intervals
                task.check()
                await asyncio.sleep(0.01)
            is_blocked, sent = False, with_progress.count(True)
            while with_progress.count(True) == sent:
                await asyncio.sleep(0.01)
        return "done"

    server = FakeServer(heartbeat_seconds=0.2, answer=answer)
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")))) == Summary(succeeded=1)
    assert with_progress[0] and (True, True) not in zip(with_progress, with_progress[1:])


def test_a_result_that_is_too_large_for_a_proxy_is_a_failure() -> None:
    def answer(path: str, body: Any) -> httpx.Response | None:
        is_large = path.endswith("/finish") and "result" in body["endings"][0]
        return httpx.Response(413, text="Request Entity Too Large") if is_large else None

    server = FakeServer(answer=answer)
    assert asyncio.run(server.run(lambda _: "x", lambda: len(server.sent("/finish")) == 2)) == Summary(failed=1)


@pytest.mark.parametrize("is_coroutine", [True, False])
def test_a_handler_that_exits_fails_its_item_only(is_coroutine: bool) -> None:
    def handle(task: Task) -> None:
        if task.payload == 0:
            sys.exit(0)

    async def handle_async(task: Task) -> None:
        handle(task)

    server = FakeServer(3)
    handler = handle_async if is_coroutine else handle

    def has_ended() -> bool:
        return sum(len(body["endings"]) for body in server.sent("/finish")) == 3

    assert asyncio.run(server.run(handler, has_ended, concurrency=3)) == Summary(succeeded=2, failed=1)
    [error] = [one["error"] for body in server.sent("/finish") for one in body["endings"] if "error" in one]
    assert error["kind"] == "SystemExit"


class Panic(BaseException):
    """As that of an extension module in Rust."""


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.parametrize("error", [Panic("index out of range"), asyncio.CancelledError(), Cancelled("no")])
def test_whatever_a_handler_raises_of_its_own_fails_its_item(error: BaseException, is_coroutine: bool) -> None:
    def handle(_: Task) -> None:
        raise error

    async def handle_async(task: Task) -> None:
        handle(task)

    server = FakeServer()
    handler = handle_async if is_coroutine else handle
    until: Callable[[], bool] = lambda: bool(server.sent("/finish") or server.sent("/release"))
    assert asyncio.run(server.run(handler, until, **SHORT)) == Summary(failed=1)
    assert [ending["error"]["kind"] for ending in ends(server)] == [type(error).__name__]


def test_a_failure_whose_pause_is_no_number_is_a_failure_nevertheless() -> None:
    def handle(_: Task) -> None:
        raise Release("soon")  # type: ignore[arg-type]

    server = FakeServer()
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")), **SHORT)) == Summary(failed=1)


def test_releases_are_sent_together_up_to_a_limit() -> None:
    at_once, most = 0, 0
    are_many = asyncio.Event()

    async def hold(path: str, _: Any) -> None:
        nonlocal at_once, most
        if path.endswith("/release"):
            at_once += 1
            most = max(most, at_once)
            if at_once == MOST_RELEASES:
                are_many.set()
            await are_many.wait()
            at_once -= 1

    async def handle(task: Task) -> None:
        await task.stopped()
        task.check()

    server = FakeServer(100, before=hold)
    summary = asyncio.run(server.run(handle, lambda: server.left == 0, concurrency=100, **SHORT))
    assert summary == Summary(released=100) and most == MOST_RELEASES


def test_a_release_that_hangs_holds_up_no_result() -> None:
    has_result = asyncio.Event()

    async def hold(path: str, _: Any) -> None:
        if path.endswith("/release"):
            await has_result.wait()
        if path.endswith("/finish"):
            has_result.set()

    async def handle(task: Task) -> None:
        if task.payload == 1:
            raise Release
        while not server.sent("/release"):
            await asyncio.sleep(0.001)

    server = FakeServer(2, before=hold)
    assert asyncio.run(server.run(handle, has_result.is_set, concurrency=2)) == Summary(succeeded=1, released=1)


@pytest.mark.parametrize("path", ["/finish", "/release", "/wait"])
def test_a_report_is_sent_again_after_a_refusal_of_the_token_or_the_host(path: str) -> None:
    answers = [problem(401, "unauthenticated"), problem(403, "forbidden"), problem(421, "misdirected")]

    def answer(asked: str, _: Any) -> httpx.Response | None:
        return answers.pop(0) if asked.endswith(path) and answers else None

    def handle(_: Task) -> str:
        if path == "/finish":
            return "paid"
        raise Release if path == "/release" else Wait("approval")

    server = FakeServer(answer=answer)
    summary = asyncio.run(server.run(handle, lambda: has_free_place(server)))
    assert summary == (Summary(succeeded=1) if path == "/finish" else Summary(released=1))
    assert len(server.sent(path)) == 4 and not answers


@pytest.mark.parametrize("ending", [None, Release, Wait("approval")])
def test_a_worker_whose_token_is_revoked_ends_when_its_leases_have(ending: Any) -> None:
    is_revoked = False

    def answer(_: str, __: Any) -> httpx.Response | None:
        return problem(401, "unauthenticated") if is_revoked else None

    def handle(_: Task) -> str:
        nonlocal is_revoked
        is_revoked = True
        if ending is not None:
            raise ending
        return "paid"

    async def run() -> None:
        async with asyncio.timeout(20), FakeServer(answer=answer, heartbeat_seconds=0.2).client() as client:
            await Worker(client, ["t"], handle).run_async()

    with pytest.raises(ApiError, match="401"):
        asyncio.run(run())


def test_a_claim_waits_as_long_as_a_refusal_says_but_not_after_a_stop() -> None:
    times: list[float] = []

    def answer(path: str, _: Any) -> httpx.Response | None:
        if path != "/assignments":
            return None
        times.append(time.monotonic())
        return problem(503, "busy", Retry_After="1" if len(times) == 1 else "60")

    server = FakeServer(answer=answer, retry_timeout=0)
    assert asyncio.run(server.run(lambda _: 1, lambda: len(times) == 2)) == Summary()
    assert times[1] - times[0] >= 1 and time.monotonic() - times[1] < 15


def test_a_claim_whose_answer_cannot_be_decoded_is_sent_again() -> None:
    answers = [httpx.Response(200, stream=httpx.ByteStream(b"not gzip"), headers={"Content-Encoding": "gzip"})]
    server = FakeServer(answer=lambda path, _: answers.pop() if path == "/assignments" and answers else None)
    assert asyncio.run(server.run(lambda _: 1, lambda: bool(server.sent("/finish")))) == Summary(succeeded=1)


def test_a_worker_that_cannot_read_a_claim_ends_what_it_holds_before_it_leaves() -> None:
    held = asyncio.Event()

    def answer(path: str, _: Any) -> Any:
        return {"assignments": [{"id": "a"}]} if path == "/assignments" and held.is_set() else None

    async def handle(task: Task) -> None:
        held.set()
        while len(server.sent("/assignments")) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)

    async def run() -> None:
        async with server.client() as client:
            await Worker(client, ["t"], handle, concurrency=2).run_async()

    server = FakeServer(answer=answer)
    with pytest.raises(KeyError):
        asyncio.run(asyncio.wait_for(run(), 20))
    assert [ending["result"] for ending in ends(server)] == [{}]


def test_calls_that_block_are_refused_in_the_event_loop() -> None:
    async def handle(task: Task) -> None:
        with pytest.raises(RuntimeError, match="await task.step_async"):
            task.step("sent")
        with pytest.raises(RuntimeError, match="await task.log_async"):
            task.log("sent")

    server = FakeServer()
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")), **SHORT)) == Summary(succeeded=1)


def test_a_log_line_that_cannot_be_sent_is_lost_and_not_the_work() -> None:
    def handle(task: Task) -> None:
        for value in (datetime.datetime.now(), float("nan"), recursive(), deep()):
            task.log("sent", value=value)
        task.log("done")

    server = FakeServer()
    assert asyncio.run(server.run(handle, lambda: bool(server.sent("/finish")))) == Summary(succeeded=1)
    assert [line["message"] for body in server.sent("/logs") for line in body["lines"]] == ["done"]


def test_progress_of_the_first_line_is_sent_within_a_second() -> None:
    async def handle(task: Task) -> None:
        task.progress(message="reading the file")
        began = time.monotonic()
        while not server.sent("/heartbeat") and time.monotonic() < began + 10:
            await asyncio.sleep(0.01)
        times.append(time.monotonic() - began)

    times: list[float] = []
    server = FakeServer()
    assert asyncio.run(server.run(handle, lambda: bool(times))) == Summary(succeeded=1)
    assert times[0] < 5, "not at the next heartbeat, after a minute"
    assert server.sent("/heartbeat")[0]["heartbeats"][0]["progress"] == {"message": "reading the file"}


def test_the_grace_of_a_handler_whose_lease_is_lost_ends_before_the_lease() -> None:
    times: list[float] = []

    async def handle(_: Task) -> None:
        times.append(time.monotonic())
        try:
            await asyncio.sleep(60)
        finally:
            times.append(time.monotonic())

    # A quarter of an interval is left: the test must not fail when other programs take a second of it.
    server = FakeServer(heartbeat_seconds=4, answer=lambda path, _: httpx.Response(503) if path.endswith("/heartbeat") else None)
    summary = asyncio.run(server.run(handle, lambda: len(times) == 2, drain_seconds=30, grace_seconds=30))
    assert summary == Summary(released=1) and times[1] - times[0] < 12


async def leave_silent_server(handle: Callable[[Task], Any], began: threading.Event, **options: Any) -> tuple[Summary, float]:
    """Summary of a worker that leaves while the server answers no claims any more, and its seconds."""
    asked = asyncio.Event()

    async def stay_silent(path: str, _: Any) -> None:
        if path == "/assignments" and len(server.sent("/assignments")) > 1:
            asked.set()
            await asyncio.sleep(60)

    server = FakeServer(before=stay_silent)
    async with server.client() as client:
        worker = Worker(client, ["t"], handle, concurrency=2, **options)
        running = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(began.wait, 10)
        await asked.wait()
        left_at = time.monotonic()
        worker.stop()
        if options.get("drain_seconds") == 60:
            await asyncio.sleep(0)
            worker.stop(at_once=True)
        return await asyncio.wait_for(running, 20), time.monotonic() - left_at


def test_handlers_are_stopped_in_time_although_the_server_does_not_answer_the_last_claim() -> None:
    began = threading.Event()

    async def handle(task: Task) -> None:
        began.set()
        await task.stopped()

    summary, seconds = asyncio.run(leave_silent_server(handle, began, **SHORT))
    assert summary == Summary(succeeded=1) and seconds < 10


def test_a_worker_leaves_at_once_although_the_server_does_not_answer_the_last_claim() -> None:
    began = threading.Event()

    async def handle(task: Task) -> None:
        began.set()
        await task.stopped()

    summary, seconds = asyncio.run(leave_silent_server(handle, began, drain_seconds=60))
    assert summary == Summary(lost=1) and seconds < 1.5, "not after the time for the last claim"


def test_a_program_ends_at_its_second_signal_although_a_function_runs() -> None:
    program = """
import time
from tests.fake import FakeServer
from treeline import Worker

def handle(_):
    print("began", flush=True)
    time.sleep(600)

Worker(FakeServer().client(), ["t"], handle, drain_seconds=0, grace_seconds=0).run()
"""
    package = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(package / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], cwd=package, env=environment, stdout=pipe, stderr=pipe) as running:
        try:
            assert running.stdout is not None and running.stderr is not None
            assert running.stdout.readline() == b"began\n"
            running.terminate()
            assert any(b"until a second signal" in line for line in iter(running.stderr.readline, b""))
            running.terminate()
            assert running.wait(10) == 0
        finally:
            running.kill()
