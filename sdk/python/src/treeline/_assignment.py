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
#: Longest time in seconds before a heartbeat is repeated whose lease may be over.
LONGEST_PAUSE = 10.0


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
    #: True while no heartbeat was answered for so long that the lease may be over: the handler is told to stop.
    is_lost: bool = False
    #: True when Treeline has said that the assignment is closed.
    is_closed: bool = False
    #: True when the handler has ended and its ending is being reported.
    has_ended: bool = False
    #: True while a function runs in a thread, which cannot be stopped.
    in_thread: bool = False
    #: True after a heartbeat was refused: the next one has no progress.
    is_bare: bool = False
    #: True after something else than Treeline refused progress: it waits for the heartbeats that are due.
    is_progress_held: bool = False
    #: Number of reports of the ending that Treeline has not answered.
    unanswered_reports: int = 0
    #: Since when something else than Treeline refuses the ending, while Treeline answers the heartbeats.
    refused_since: float | None = None
    #: True if the ending was replaced by a failure without its content.
    is_without_content: bool = False

    @classmethod
    def of(cls, task: Task, sent: float, now: float) -> Self:
        """An assignment whose claim was first sent at `sent`: its lease may have begun then."""
        interval = float(task.assignment["heartbeat_seconds"])
        is_fresh = now - sent < interval
        answered = sent if is_fresh else now
        return cls(task, interval, answered, answered + interval if is_fresh else now, answered, is_fresh)

    @property
    def has_news(self) -> bool:
        """True if there is progress that does not wait for the next heartbeat."""
        return not (self.is_bare or self.is_progress_held) and self.task._progress != self.sent_progress

    @property
    def due_at(self) -> float:
        """When the next heartbeat is sent."""
        return min(self.due, self.beaten + PROGRESS_EVERY) if self.has_news else self.due

    @property
    def is_at_work(self) -> bool:
        """True if a handler must be stopped when the lease may be over. The ending of one that has ended is reported."""
        return not (self.has_ended or self.is_lost or self.is_closed)

    def progress_refused(self, now: float, progress: dict[str, Any] | None) -> None:
        """Drops progress that Treeline refuses. It must not cost the lease: one heartbeat goes at once without it."""
        self.due, self.is_bare = now, True
        if self.task._progress is progress:
            self.task._progress = None

    def beat_unanswered(self, now: float, *, had_progress: bool, is_foreign: bool) -> None:
        """Records that a heartbeat was not answered by Treeline.

        If something else refused the batch, maybe for the progress in it, the next one goes at once without any.
        """
        if is_foreign:
            self.is_bare = self.is_progress_held = had_progress
        pause = 0.0 if is_foreign and had_progress else 1.0 if now < self.lost_at else LONGEST_PAUSE
        self.due = now + min(pause, self.interval / 4)

    def beat_accepted(self, sent: float, progress: dict[str, Any] | None) -> None:
        """Records that a heartbeat sent at `sent` was accepted with this progress."""
        self.due, self.answered, self.is_lost = sent + self.interval, sent, False
        self.sent_progress = progress
        self.is_bare, self.is_progress_held = False, self.is_progress_held and not progress

    def report_unanswered(self, now: float, *, is_foreign: bool) -> bool:
        """Records that a report of the ending was not answered by Treeline. True once if its content is the reason.

        That is so if it was only refused on the way for the length of a lease, in which Treeline answered the heartbeats.
        """
        self.unanswered_reports += 1
        if not is_foreign or now >= self.lost_at:
            self.refused_since = None
            return False
        if self.refused_since is None:
            self.refused_since = now
        is_content_refused = now - self.refused_since >= LEASE * self.interval
        if self.is_without_content or not is_content_refused:
            return False
        self.is_without_content = True
        return True

    @property
    def lost_at(self) -> float:
        """When the handler is stopped unless a heartbeat is answered before."""
        return self.answered + LOST_AFTER * self.interval

    @property
    def dropped_at(self) -> float:
        """When a handler whose heartbeats are not answered must have ended, shortly before the lease does."""
        return self.answered + DROPPED_AFTER * self.interval
