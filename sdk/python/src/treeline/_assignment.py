"""An assignment of a worker: when its heartbeat is due, and when its handler must stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

from ._task import Task

#: Intervals of a lease.
LEASE = 3.0
#: Intervals without an answer to a heartbeat after which a handler is stopped.
LOST_AFTER = 2.5
#: Intervals after which a handler that has not stopped is dropped.
DROPPED_AFTER = 2.75
#: Shortest time between two heartbeats of an assignment that has new progress.
PROGRESS_EVERY = 1.0


@dataclass
class Assigned:
    """An item from its claim until its ending is acknowledged."""

    task: Task
    interval: float
    #: When the last answered heartbeat was sent: the lease has lasted at most since then.
    answered: float
    due: float
    #: When the last heartbeat was sent, answered or not.
    beaten: float
    #: False before the first heartbeat of an item whose claim was answered late.
    is_confirmed: bool
    sent_progress: dict[str, Any] | None = None
    runner: asyncio.Task[None] | None = None
    is_lost: bool = False
    #: True while a function runs in a thread, which cannot be stopped.
    in_thread: bool = False
    #: True after a heartbeat was refused: the next one has no progress.
    is_bare: bool = False
    #: Since when something else than Treeline refuses the ending, and how often it has.
    refused_since: float = 0.0
    refusals: int = 0

    @classmethod
    def of(cls, task: Task, sent: float, now: float) -> Self:
        """An assignment whose claim was first sent at `sent`: its lease may have begun then."""
        interval = float(task.assignment["heartbeat_seconds"])
        is_fresh = now - sent < interval
        answered = sent if is_fresh else now
        return cls(task, interval, answered, answered + interval if is_fresh else now, answered, is_fresh)

    @property
    def has_news(self) -> bool:
        """True if there is progress to send."""
        return not self.is_bare and self.task._progress != self.sent_progress

    @property
    def due_at(self) -> float:
        """When the next heartbeat is sent."""
        return min(self.due, self.beaten + PROGRESS_EVERY) if self.has_news else self.due

    @property
    def lost_at(self) -> float:
        """When the handler is stopped unless a heartbeat is answered before."""
        return self.answered + LOST_AFTER * self.interval

    @property
    def dropped_at(self) -> float:
        """When a handler whose heartbeats are not answered must have ended, shortly before the lease does."""
        return self.answered + DROPPED_AFTER * self.interval
