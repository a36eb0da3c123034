"""Threads for handlers that are functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

#: A function, and what receives its result or its error.
Call = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class Threads:
    """Up to `most` threads, which are reused.

    They are daemons: a program that leaves at once does not wait for functions that still run, as it does for those of a
    `ThreadPoolExecutor`.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._started = self._busy = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Result of a function that runs in one of the threads. Raises what it raises."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def end(result: Any, error: BaseException | None) -> None:
            self._busy -= 1
            if not ended.done():
                ended.set_result((result, error))

        def report(result: Any, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is closed: the worker has left at once
                loop.call_soon_threadsafe(end, result, error)

        self._busy += 1
        if self._busy > self._started and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._calls.put((function, report))
        result, error = await ended
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ends each thread when its function has ended."""
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, report = call
            try:
                report(function(), None)
            except BaseException as error:
                report(None, error)
            del call, function, report  # nothing of an item stays while the thread waits
