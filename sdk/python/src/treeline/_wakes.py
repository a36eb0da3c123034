"""Wake-ups of a worker: items that a broker has named."""

from __future__ import annotations

import asyncio

from ._changes import Changes


class Wakes:
    """Names of items that can be claimed, at most `most` at once, and whether any can arrive."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.changed = Changes()
        self._names: asyncio.Queue[str] = asyncio.Queue(most)
        self._is_attached = False

    @property
    def is_attached(self) -> bool:
        """True while messages arrive."""
        return self._is_attached

    @is_attached.setter
    def is_attached(self, value: bool) -> None:
        self._is_attached = value
        self.changed.tell()

    async def put(self, name: str) -> None:
        """Adds a name, once there is room."""
        await self._names.put(name)
        self.changed.tell()

    async def wait(self, seconds: float) -> None:
        """Returns when there is a name, when none can arrive any more, or after some seconds."""
        if self._names.empty() and self._is_attached and seconds > 0:
            await self.changed.after(self.changed.count, seconds)

    def take(self, most: int) -> list[str]:
        """Up to `most` names."""
        return [self._names.get_nowait() for _ in range(min(most, self._names.qsize()))]
