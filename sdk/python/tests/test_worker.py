"""Workers of a server that is made up."""

from __future__ import annotations

import asyncio
import threading

from treeline import Summary, Task

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
