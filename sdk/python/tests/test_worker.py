"""Workers of a server that is made up."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from treeline import Failure, Release, Summary, Task

from .fake import FakeServer


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
