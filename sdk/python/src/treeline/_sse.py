"""Parser of server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_EVENT = 16 * 1024 * 1024


@dataclass(frozen=True)
class Event:
    """One event of a stream: its name and its data."""

    name: str
    data: str


class Parser:
    """Turns lines of a stream into events."""

    def __init__(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._size = 0
        #: Seconds after which the server wants to be asked again, if it has said so.
        self.retry: float | None = None

    def feed(self, line: str) -> Iterator[Event]:
        """Adds one line without its end. Yields an event if the line completes one."""
        if not line:
            if self._data:
                yield Event(self._name or "message", "\n".join(self._data))
            self._name, self._data, self._size = "", [], 0
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "retry" and value.isdecimal():
            self.retry = int(value) / 1_000
        elif field == "data":
            self._size += len(value)
            if self._size > LARGEST_EVENT:
                raise ValueError("an event is larger than 16 MiB")
            self._data.append(value)
