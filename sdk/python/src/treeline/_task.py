"""What a handler gets and raises."""

from __future__ import annotations

import asyncio
import logging
import operator
from typing import Any

from . import types as t
from ._changes import Changes
from .aio import AsyncClient
from .errors import Cancelled, TreelineError

log = logging.getLogger("treeline.worker")

#: Greatest count of a progress report, which every reader of JSON keeps exact.
GREATEST_COUNT = 2**53 - 1
#: Most characters of a progress message.
LONGEST_MESSAGE = 1_000


class Failure(TreelineError):
    """Raised by a handler to fail an item in a chosen way.

    `kind` groups errors, `detail` is any JSON, `retryable=False` makes the item fail for good at once, and
    `retry_after_seconds` replaces the backoff of the job type. `cancel_tree` cancels the whole tree.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        detail: Any = None,
        retryable: bool = True,
        retry_after_seconds: float | None = None,
        cancel_tree: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind, self.detail, self.retryable = kind, detail, retryable
        self.retry_after_seconds, self.cancel_tree = retry_after_seconds, cancel_tree


class Release(TreelineError):
    """Raised by a handler to give its item back without a failure."""

    def __init__(self, retry_after_seconds: float | None = None) -> None:
        super().__init__("released")
        self.retry_after_seconds = retry_after_seconds


class Wait(TreelineError):
    """Raised by a handler to end its attempt and wait for an event, without a lease and without a failure.

    `name` is that of the event. The next attempt has it as `Task.event`; after `timeout_seconds` it has one that is
    `timed_out`. `form` has questions that a person answers on the page of the item.
    """

    def __init__(self, name: str, *, timeout_seconds: float | None = None, form: t.EventForm | None = None) -> None:
        super().__init__(f"waits for {name}")
        self.name, self.timeout_seconds, self.form = name, timeout_seconds, form


class Task:
    """One item in a handler's hands."""

    def __init__(self, assignment: t.Assignment, client: AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
        self.assignment = assignment
        self._client = client
        self._loop = loop
        self._stopped = asyncio.Event()
        self._progress: dict[str, Any] | None = None
        self._said: Changes | None = None

    @property
    def payload(self) -> Any:
        """Payload of the item."""
        return self.assignment["item"].get("payload")

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.assignment["attempt"]

    @property
    def item_id(self) -> str:
        """ID of the item: the same in every attempt, so it can make effects idempotent."""
        return self.assignment["item"]["id"]

    @property
    def type(self) -> str:
        """Name of the job type."""
        return self.assignment["item"]["type"]

    @property
    def last_step(self) -> Any:
        """Last recovery point of an earlier attempt, `{"name", "data"}`, or `None`."""
        return self.assignment["item"].get("step")

    @property
    def event(self) -> t.ReceivedEvent | None:
        """Event that the previous attempt waited for (`Wait`): its name, data, and sender. `None` without a wait."""
        return self.assignment["item"].get("event")

    @property
    def is_stopped(self) -> bool:
        """True if the work must end: the job was canceled, the lease was lost, or the worker is leaving."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raises `Cancelled` if the work must end."""
        if self.is_stopped:
            raise Cancelled("the work must end")

    def progress(self, done: int | None = None, total: int | None = None, message: str | None = None) -> None:
        """Reports progress. Cheap: at most one report a second is sent, always the latest.

        `done` and `total` are whole numbers from 0 (`TypeError`, `ValueError`), and `message` has at most 1,000
        characters (`ValueError`).
        """
        given = {"done": _count("done", done), "total": _count("total", total), "message": _message(message)}
        self._progress = {name: value for name, value in given.items() if value is not None}
        if self._said is not None:
            self._loop.call_soon_threadsafe(self._said.tell)

    async def stopped(self) -> None:
        """Returns when the work must end."""
        await self._stopped.wait()

    async def step_async(self, name: str, data: Any = None) -> None:
        """Records a recovery point and its data. The next attempt receives it as `last_step`."""
        await self._client.step(self.assignment["id"], name, data)

    def step(self, name: str, data: Any = None) -> None:
        """Same as `step_async`, for handlers that are not asynchronous. Raises `RuntimeError` in the event loop."""
        self._check_thread("step")
        asyncio.run_coroutine_threadsafe(self.step_async(name, data), self._loop).result()

    async def log_async(self, message: str, level: t.LogLevel = "info", **fields: Any) -> None:
        """Adds a line to the log of this attempt. A line that cannot be sent is lost, never the work."""
        line: dict[str, Any] = {"message": message, "level": level}
        if fields:
            line["fields"] = fields
        try:
            await self._client.log(self.assignment["id"], [line])
        except (TreelineError, TypeError, ValueError, RecursionError) as error:
            log.warning("a log line was not stored: %s", error)

    def log(self, message: str, level: t.LogLevel = "info", **fields: Any) -> None:
        """Same as `log_async`, for handlers that are not asynchronous. Raises `RuntimeError` in the event loop."""
        self._check_thread("log")
        asyncio.run_coroutine_threadsafe(self.log_async(message, level, **fields), self._loop).result()

    def _check_thread(self, name: str) -> None:
        """Refuses a call in the event loop, which would wait for itself for ever."""
        if asyncio._get_running_loop() is self._loop:
            raise RuntimeError(f"task.{name}() blocks, and this is the event loop: use await task.{name}_async()")


def _count(name: str, value: int | None) -> int | None:
    """A count as the server takes it. An integer of another library, such as `numpy.int64`, becomes an `int`."""
    if value is None:
        return None
    try:
        count = int(operator.index(value))
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, not {type(value).__name__}") from None
    if not 0 <= count <= GREATEST_COUNT:
        raise ValueError(f"{name}: expected a whole number from 0 to {GREATEST_COUNT}")
    return count


def _message(value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"message: expected a str, not {type(value).__name__}")
    if len(value) > LONGEST_MESSAGE:
        raise ValueError(f"message: expected at most {LONGEST_MESSAGE} characters")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("message: expected text without NUL and surrogates")
    return value
