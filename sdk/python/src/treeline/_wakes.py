"""Wake-ups of a worker: items that a broker has named."""

from __future__ import annotations

import asyncio

from ._changes import Changes


class Wakes:
    """Names of items that can be claimed, at most `most` at once, and whether any can arrive."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.changed = Changes()
        #: Names, and what is told when they are taken.
        self._names: dict[asyncio.Future[None], str] = {}
        self._is_attached = False
        self._waiting = 0

    @property
    def is_attached(self) -> bool:
        """True while messages arrive, or would if the worker waited for one."""
        return self._is_attached

    @is_attached.setter
    def is_attached(self, value: bool) -> None:
        self._is_attached = value
        self.changed.tell()

    async def put(self, name: str, seconds: float | None = None) -> bool:
        """Offers a name to the worker. True when it is taken, false if that is not so after some seconds."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._names[taken] = name
        self.changed.tell()
        try:
            await asyncio.wait({taken}, timeout=seconds)
        finally:
            self._names.pop(taken, None)
        return taken.done()

    async def wait(self, seconds: float) -> None:
        """Returns when there is a name, when none can arrive any more, or after some seconds."""
        if self._names or not self._is_attached or seconds <= 0:
            return
        self._waiting += 1
        self.changed.tell()
        try:
            await self.changed.after(self.changed.count, seconds)
        finally:
            self._waiting -= 1

    async def wanted(self) -> None:
        """Returns when the worker waits for a name."""
        while not self._waiting:
            await self.changed.after(self.changed.count)

    def take(self, most: int) -> list[str]:
        """Up to `most` names."""
        taken = list(self._names)[:most]
        for each in taken:
            each.set_result(None)
        return [self._names.pop(each) for each in taken]
