"""Waiting for a change that several coroutines watch."""

from __future__ import annotations

import asyncio


class Changes:
    """Count of changes that any number of coroutines wait on; none of them misses one.

    Each waiter names the count it has seen. With one `asyncio.Event` for all of them, a waiter that clears it can hide a
    change from another that has not begun to wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiters: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Wakes everyone who waits."""
        self.count += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, seen: int, seconds: float | None = None) -> None:
        """Returns after a change that is later than `seen`, or after some seconds."""
        if self.count != seen:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            # Not `wait_for`: before Python 3.12 it can swallow a cancellation that comes together with the change.
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            self._waiters.discard(waiter)
