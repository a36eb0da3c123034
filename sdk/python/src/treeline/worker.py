"""Worker: claims items, keeps their leases alive, runs handlers, and reports what they return."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from . import types as t
from ._assignment import Assigned
from ._changes import Changes
from ._failures import error_of, pause_of, without_content, without_detail
from ._retry import backoff, is_foreign, is_refusal, is_transient_status, is_unanswered
from ._task import Failure, Release, Task, Wait
from ._threads import Threads
from ._wakes import Wakes
from .aio import AsyncClient, _answers
from .errors import ApiError, Cancelled, ConnectionFailed, TreelineError

__all__ = ["Failure", "Handler", "Release", "Summary", "Task", "Wait", "Worker"]

log = logging.getLogger("treeline.worker")

#: Seconds that a claim waits at the server for work.
CLAIM_WAIT = 20
#: Most items that one claim asks for.
MOST_CLAIMED = 1_000
#: Seconds within which a heartbeat must be answered; less if the intervals are short.
HEARTBEAT_TIMEOUT = 10.0
#: Seconds within which a leaving worker learns what its last claim has taken.
LAST_CLAIM_TIMEOUT = 2.0
#: Most releases and waits that are reported at once.
MOST_RELEASES = 32
#: Most seconds before an ending is reported again.
LONGEST_REPORT_PAUSE = 30.0
#: Message and kind of the failure of an item that must not be released, because it is delivered at most once.
STOPPED = ("The worker was stopped before the item was done.", "worker_stopped")
#: Seconds that a claim waits while RabbitMQ is configured but away. Wake-ups that arrive meanwhile go to other workers.
CLAIM_WAIT_BESIDE = 5
#: Seconds between two claims of its own while RabbitMQ wakes the worker.
LOOK_EVERY = 30.0


Handler = Callable[[Task], Any] | Callable[[Task], Awaitable[Any]]


@dataclass
class Summary:
    """Numbers of items by how they ended.

    `released`: given back without a failure, or waiting for an event. `lost`: another worker has them, they were
    canceled, or the worker has left before it could report them.
    """

    succeeded: int = 0
    failed: int = 0
    released: int = 0
    lost: int = 0


@contextmanager
def _signals(leave: Callable[[], None]) -> Iterator[None]:
    """Calls `leave` in the event loop at each SIGTERM and SIGINT."""
    loop, numbers, before = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT), {}
    for number in numbers:
        try:
            loop.add_signal_handler(number, leave)
        except NotImplementedError:  # Windows
            before[number] = signal.signal(number, lambda *_: loop.call_soon_threadsafe(leave))
    try:
        yield
    finally:
        for number in numbers:
            if number in before:
                signal.signal(number, before[number])
            else:
                loop.remove_signal_handler(number)


class Worker:
    """Works on items of some job types.

    `handler` is a function or coroutine function: what it returns is the result, what it raises the failure
    (`Failure` chooses how; `Release` and `Wait` are none). Functions run in threads of the worker. Up to `concurrency`
    items are held at once. When the worker must leave (SIGTERM, SIGINT, or `stop`), it claims nothing more and waits up
    to `drain_seconds` for its handlers; then it tells them to stop, waits up to `grace_seconds`, cancels coroutines, and
    gives their items back, or makes them failures if they are delivered `at_most_once`. A function cannot be stopped
    from outside: the worker keeps its item until it ends, or until a second signal, after which its lease ends.

    An ending is reported until Treeline answers it or says that the assignment is closed. If something on the way refuses
    only the report, for the length of a lease while heartbeats are answered, it becomes a failure without its content
    (`answer_refused`).
    """

    def __init__(
        self,
        client: AsyncClient,
        types: Sequence[str],
        handler: Handler,
        *,
        concurrency: int = 1,
        worker_id: str | None = None,
        drain_seconds: float = 30.0,
        grace_seconds: float = 5.0,
        amqp_url: str | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency: expected at least 1")
        self.client, self.types, self.handler, self.concurrency = client, list(types), handler, concurrency
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}"
        self.drain_seconds, self.grace_seconds, self.amqp_url = drain_seconds, grace_seconds, amqp_url
        self.summary = Summary()
        self._held: dict[str, Assigned] = {}
        self._endings: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        #: Endings that have a request of their own: releases and waits.
        self._releases: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._leaves_at_once = False
        self._changed = Changes()
        self._fatal: BaseException | None = None
        #: Id of the claim that has no answer yet.
        self._last_claim: str | None = None
        # Not the threads of the event loop: those are few, and heartbeats need one of them to look up a host name.
        self._threads = Threads(concurrency, "treeline-handler")

    def run(self) -> Summary:
        """Works until a signal arrives. Returns the numbers of items."""
        return asyncio.run(self.run_async(signals=True))

    def stop(self, *, at_once: bool = False) -> None:
        """Makes the worker leave, from its own event loop. `at_once`: it waits for no handler, whose leases then end."""
        self._leaves_at_once = self._leaves_at_once or at_once
        self._stop.set()
        self._changed.tell()

    def _signaled(self) -> None:
        self.stop(at_once=self._stop.is_set())

    async def run_async(self, *, signals: bool = False) -> Summary:
        """Works until `stop` is called, or, with `signals`, until SIGTERM or SIGINT arrives; at a second one, it leaves at once."""
        helps = [self._beat, self._watch_leases, self._report, *[self._report_releases] * MOST_RELEASES]
        helpers = [asyncio.create_task(help()) for help in helps]
        wakes: Wakes | None = None
        if self.amqp_url is not None:
            from ._rabbitmq import listen

            wakes = Wakes(self.concurrency)
            helpers.append(asyncio.create_task(listen(self.amqp_url, self.types, wakes)))
        for helper in helpers:
            helper.add_done_callback(self._helper_ended)
        try:
            with _signals(self._signaled) if signals else nullcontext():
                try:
                    await self._claim_until_stopped(wakes)
                except Exception as error:
                    self._fatal = error
                await self._leave()
        finally:
            for held in self._held.values():
                held.task._stopped.set()
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._threads.close()
        if self._fatal is not None:
            raise self._fatal
        return self.summary

    def _helper_ended(self, helper: asyncio.Task[None]) -> None:
        """Makes the worker leave with the error that ended a helper: without reports or heartbeats it would stand still."""
        if not helper.cancelled() and (error := helper.exception()) is not None:
            self._fatal = error
            self._stop.set()

    # Claiming

    async def _claim_until_stopped(self, wakes: Wakes | None) -> None:
        look_at = time.monotonic()
        while not self._stop.is_set():
            seen, free = self._changed.count, self.concurrency - len(self._held)
            if free == 0:
                await self._until(self._changed.after(seen))
                continue
            body: dict[str, Any] = {"worker_id": self.worker_id, "types": self.types, "claim_id": str(uuid.uuid4())}
            body["max"] = min(free, MOST_CLAIMED)
            names: list[str] = []
            if wakes is None or not wakes.is_attached:
                body["wait_seconds"] = CLAIM_WAIT if wakes is None else CLAIM_WAIT_BESIDE
            else:
                await self._until(wakes.wait(look_at - time.monotonic()))
                if names := wakes.take(body["max"]):
                    body |= {"types": [], "item_ids": names, "max": len(names)}
            if not names:
                look_at = time.monotonic() + LOOK_EVERY
            if self._stop.is_set():
                return
            self._last_claim, sent = body["claim_id"], time.monotonic()
            asked = asyncio.create_task(self._claim(body))
            try:
                await self._until(asked)
            except ApiError as error:
                self._last_claim, self._fatal = None, error
                return
            if not asked.done():
                asked.cancel()
                with suppress(asyncio.CancelledError, TreelineError):
                    await asked
                return
            self._last_claim = None
            for assignment in asked.result():
                self._start(assignment, sent)
                look_at = time.monotonic()  # there may be more where it came from

    async def _claim(self, body: dict[str, Any], retry_timeout: float | None = None) -> list[t.Assignment]:
        """Sends a claim until it is answered. Its `claim_id` brings the items of a lost answer. Raises the error of a refusal."""
        failures = 0
        while True:
            try:
                return await self.client._claim(body, retry_timeout=retry_timeout)
            except (ApiError, ConnectionFailed) as error:
                if isinstance(error, ApiError) and is_refusal(error) and error.status in (400, 401, 403, 422):
                    raise
                failures += 1
                log.warning("%s", error)
                pause = getattr(error, "retry_after", None) or 0.0
            await asyncio.sleep(max(backoff(failures), pause))

    async def _until(self, wanted: Awaitable[Any]) -> None:
        """Awaits something, until the worker is to leave. A task is then left to the caller."""
        task = asyncio.ensure_future(wanted)
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if task.done():
            task.result()
        elif task is not wanted:
            task.cancel()

    async def _take_back(self) -> None:
        """Ends a claim that still waits at the server, and releases what it has taken."""
        if self._last_claim is None:
            return
        # It names no items: it takes nothing, and so does a request with this id that is still on its way.
        body = {"worker_id": self.worker_id, "types": [], "item_ids": [], "claim_id": self._last_claim}
        try:
            async with asyncio.timeout(LAST_CLAIM_TIMEOUT):
                assignments = await self._claim(body, retry_timeout=0)
        except (TreelineError, TimeoutError) as error:
            log.warning("the last claim could not be taken back: %s", str(error) or "there was no answer in time")
            return
        for assignment in assignments:
            self._end(self._hold(assignment, time.monotonic()), {"assignment_id": assignment["id"], "release": None})

    # Handlers

    def _start(self, assignment: t.Assignment, sent: float) -> None:
        """Begins the work on an item. A claim that was sent long ago is confirmed first: its lease may be over."""
        if assignment["id"] in self._held:
            return
        held = self._hold(assignment, sent)
        if held.is_confirmed:
            self._begin(held)

    def _hold(self, assignment: t.Assignment, sent: float) -> Assigned:
        task = Task(assignment, self.client, asyncio.get_running_loop())
        task._said = self._changed
        held = self._held[assignment["id"]] = Assigned.of(task, sent, time.monotonic())
        self._changed.tell()
        return held

    def _begin(self, held: Assigned) -> None:
        held.runner = asyncio.create_task(self._work(held))
        held.runner.add_done_callback(lambda _: self._changed.tell())
        self._changed.tell()

    async def _work(self, held: Assigned) -> None:
        task, name = held.task, held.task.assignment["id"]
        try:
            ending = {"assignment_id": name, **await self._outcome(held)}
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also the panic of an extension module and `gevent.Timeout`, which are no `Exception`
            log.exception("item %s failed", task.item_id)
            ending = {"assignment_id": name, "error": error_of(str(error) or repr(error), type(error).__name__)}
        at_most_once = task.assignment["item"].get("delivery") == "at_most_once"
        is_final = not ending.get("retryable", True) or ending.get("cancel_tree", False)
        if "error" in ending and task.is_stopped and not is_final and not at_most_once:
            # Most likely caused by the stop.
            ending = {"assignment_id": name, "release": ending.get("retry_after_seconds")}
        self._end(held, ending)

    async def _outcome(self, held: Assigned) -> dict[str, Any]:
        """Runs the handler. Returns the ending that it chose, and raises other errors."""
        task = held.task
        ending: dict[str, Any] = {}
        try:
            if inspect.iscoroutinefunction(self.handler):
                result = await self.handler(task)
            else:
                result = await self._in_thread(held)
                if inspect.isawaitable(result):
                    result = await result
            ending["result"] = {} if result is None else result
        except Release as release:
            ending["release"] = pause_of(release.retry_after_seconds)
        except Wait as wait:
            body = {"timeout_seconds": wait.timeout_seconds, "form": wait.form}
            ending["wait"] = {"name": wait.name, **{name: value for name, value in body.items() if value is not None}}
        except (Cancelled, asyncio.CancelledError):
            if not task.is_stopped:
                raise  # of the handler's own making: it would be released each time
            if task.assignment["item"].get("delivery") == "at_most_once":
                ending["error"] = error_of(*STOPPED)
            else:
                ending["release"] = None
        except Failure as failure:
            ending["error"] = error_of(str(failure), failure.kind, failure.detail)
            ending |= {"retryable": bool(failure.retryable), "cancel_tree": bool(failure.cancel_tree)}
            if (pause := pause_of(failure.retry_after_seconds)) is not None:
                ending["retry_after_seconds"] = pause
        except SystemExit as error:
            log.error("the handler of item %s called sys.exit", task.item_id)
            ending["error"] = error_of(f"The handler called sys.exit({error.code!r}).", "SystemExit")
        return ending

    def _end(self, held: Assigned, ending: dict[str, Any]) -> None:
        """Reports an ending, unless Treeline has said that the assignment is closed."""
        held.has_ended = True
        if held.is_closed:
            self._drop(ending["assignment_id"])
        else:
            self._endings.put_nowait(ending)

    async def _in_thread(self, held: Assigned) -> Any:
        context = contextvars.copy_context()
        held.in_thread = True
        try:
            return await self._threads.run(lambda: context.run(self.handler, held.task))
        except KeyboardInterrupt as error:  # of the function itself: signals reach the main thread
            raise RuntimeError("the function raised KeyboardInterrupt") from error
        finally:
            held.in_thread = False

    def _drop(self, assignment_id: str) -> None:
        """Forgets an assignment whose ending was not accepted."""
        self.summary.lost += 1
        self._forget(assignment_id)

    def _forget(self, assignment_id: str) -> None:
        self._held.pop(assignment_id, None)
        self._changed.tell()

    # Reports

    async def _report(self) -> None:
        while True:
            endings = [await self._endings.get()]
            while len(endings) < 1_000 and not self._endings.empty():
                endings.append(self._endings.get_nowait())
            rest = []
            for ending in endings:
                if "release" in ending or "wait" in ending:
                    self._releases.put_nowait(ending)
                else:
                    rest.append(ending)
            if rest:
                await self._finish(rest)

    async def _report_releases(self) -> None:
        """Reports releases and waits, one at a time: the worker runs several of these, so that one hangs without the others."""
        while True:
            ending = await self._releases.get()
            await (self._release(ending) if "release" in ending else self._wait(ending))

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Sends a report once: the worker decides when it is sent again."""
        return await self.client.request("POST", f"/assignments/{path}", body=body, idempotent=True, retry_timeout=0)

    async def _release(self, ending: dict[str, Any]) -> None:
        assignment_id, pause = ending["assignment_id"], ending["release"]
        try:
            await self._post(f"{assignment_id}/release", {} if pause is None else {"retry_after_seconds": pause})
        except (ApiError, ConnectionFailed) as error:
            if is_unanswered(error):
                self._report_later(ending, error)
            elif isinstance(error, ApiError) and error.code == "already_started":
                await self._finish([{"assignment_id": assignment_id, "error": error_of(*STOPPED)}])
            else:
                log.warning("an item could not be released: %s", error)
                self._drop(assignment_id)
            return
        self.summary.released += 1
        self._forget(assignment_id)

    async def _wait(self, ending: dict[str, Any]) -> None:
        assignment_id = ending["assignment_id"]
        try:
            await self._post(f"{assignment_id}/wait", ending["wait"])
        except (ApiError, ConnectionFailed, ValueError, TypeError, RecursionError) as error:
            if is_unanswered(error):
                self._report_later(ending, error)
            elif isinstance(error, ApiError) and error.status in (404, 409, 410):
                log.warning("assignment %s was over: %s", assignment_id, error)
                self._drop(assignment_id)
            else:
                # A wait that the server does not take, such as one with a wrong form, fails the same way every time.
                failed = error_of(f"The wait was refused: {error}"[:1_000])
                await self._finish([{"assignment_id": assignment_id, "error": failed, "retryable": False}])
            return
        self.summary.released += 1
        self._forget(assignment_id)

    async def _finish(self, endings: list[dict[str, Any]]) -> None:
        try:
            answer = await self._post("finish", {"endings": endings})
            answers = _answers("POST /assignments/finish", answer, "endings", len(endings))
        except (ApiError, ConnectionFailed, ValueError, TypeError, RecursionError) as error:
            await self._finish_failed(endings, error)
            return
        for ending, answer in zip(endings, answers, strict=True):
            await self._finish_answered(ending, answer)

    async def _finish_failed(self, endings: list[dict[str, Any]], error: Exception) -> None:
        if is_unanswered(error) and not is_foreign(error):
            for ending in endings:
                self._report_later(ending, error)
        elif len(endings) > 1:
            # One ending that cannot be sent must not hold up the others.
            for ending in endings:
                await self._finish([ending])
        elif is_foreign(error):
            self._report_later(endings[0], error)
        else:
            await self._finish_refused(endings[0], str(error))

    async def _finish_answered(self, ending: dict[str, Any], answer: dict[str, Any]) -> None:
        assignment_id, status = ending["assignment_id"], answer["status"]
        if is_transient_status(status):
            self._report_later(ending, ApiError(f"ending of assignment {assignment_id}", status, answer))
        elif status in (404, 409, 410):
            log.warning("assignment %s was over: %s", assignment_id, answer.get("code"))
            self._drop(assignment_id)
        elif status != 200:
            at = "".join(f" at {error['pointer']}: {error['detail']}" for error in answer.get("errors", [])[:1])
            await self._finish_refused(ending, f"{status} {answer.get('code')}{at}")
        else:
            if "error" in ending:
                self.summary.failed += 1
            else:
                self.summary.succeeded += 1
            self._forget(assignment_id)

    def _report_later(self, ending: dict[str, Any], error: BaseException) -> None:
        """Reports an ending again that Treeline has not answered, until it says that the assignment is closed.

        A refused caller may be accepted again, by another server, for as long as the lease.
        An ending whose content is refused on the way for the length of a lease is replaced once by a failure without it.
        """
        assignment_id = ending["assignment_id"]
        held = self._held.get(assignment_id)
        if held is None:
            return
        log.warning("%s", error)
        if held.is_closed or (is_refusal(error) and time.monotonic() >= held.lost_at):
            log.warning("assignment %s was over", assignment_id)
            self._drop(assignment_id)
            return
        pause = max(backoff(held.unanswered_reports), getattr(error, "retry_after", None) or 0.0)
        if held.report_unanswered(time.monotonic(), is_foreign=is_foreign(error)):
            log.error("the ending of assignment %s was refused on the way; reporting a failure without it", assignment_id)
            ending, pause = without_content(ending, getattr(error, "status", None)), 0.0
        asyncio.get_running_loop().call_later(min(pause, LONGEST_REPORT_PAUSE), self._endings.put_nowait, ending)

    async def _finish_refused(self, ending: dict[str, Any], why: str) -> None:
        """Makes a result that the server does not take a failure, and sends a failure without its detail.

        The same ending would be refused every time.
        """
        log.error("the ending of assignment %s was refused: %s", ending["assignment_id"], why)
        if "error" not in ending:
            failed = error_of(f"The result was refused: {why}"[:1_000])
            ending = {"assignment_id": ending["assignment_id"], "error": failed, "retryable": False}
        elif "detail" in ending["error"]:
            ending = ending | {"error": without_detail(ending["error"], why)}
        else:
            self._drop(ending["assignment_id"])
            return
        await self._finish([ending])

    # Heartbeats

    async def _beat(self) -> None:
        while True:
            now, seen = time.monotonic(), self._changed.count
            open_ones = {name: held for name, held in self._held.items() if not held.is_closed}
            due = {name: held for name, held in open_ones.items() if held.due_at <= now}
            if due:
                await self._send_beats(due)
                continue
            waits = [held.due_at - now for held in open_ones.values()]
            await self._changed.after(seen, max(0.05, min(waits, default=60.0)))

    async def _watch_leases(self) -> None:
        """Stops handlers whose heartbeats are not answered, also while one is on its way."""
        while True:
            now, seen = time.monotonic(), self._changed.count
            for held in list(self._held.values()):
                if held.is_at_work and held.lost_at <= now:
                    log.warning("no heartbeat of item %s was answered; stopping", held.task.item_id)
                    self._lose(held)
            waits = [held.lost_at - now for held in self._held.values() if held.is_at_work]
            await self._changed.after(seen, max(0.01, min(waits, default=60.0)))

    async def _send_beats(self, due: dict[str, Assigned]) -> None:
        beats: list[dict[str, Any]] = []
        progress = {name: None if held.is_bare else held.task._progress for name, held in due.items()}
        for name in due:
            beat: dict[str, Any] = {"assignment_id": name}
            if progress[name]:
                beat["progress"] = progress[name]
            beats.append(beat)
        now = time.monotonic()
        for held in due.values():
            held.beaten = now
        try:
            async with asyncio.timeout(min(HEARTBEAT_TIMEOUT, *(held.interval / 2 for held in due.values()))):
                answers = await self.client.heartbeat(beats)
        except (TreelineError, TimeoutError) as error:
            log.warning("%s", str(error) or "a heartbeat was not answered")
            # Any progress in the batch may be the reason of a refusal.
            had_progress = any(progress.values())
            for name, held in due.items():
                if is_refusal(error) and progress[name]:
                    held.progress_refused(time.monotonic(), progress[name])
                else:
                    held.beat_unanswered(time.monotonic(), had_progress=had_progress, is_foreign=is_foreign(error))
            return
        for (name, held), answer in zip(due.items(), answers, strict=True):
            self._beat_answered(held, answer, now, progress[name])

    def _beat_answered(self, held: Assigned, answer: Mapping[str, Any], sent: float, progress: dict[str, Any] | None) -> None:
        if answer["status"] in (404, 409, 410):
            held.is_closed = True
            self._lose(held)
            return
        if answer["status"] != 200:
            log.warning("a heartbeat of item %s was refused: %s", held.task.item_id, answer.get("errors"))
            if progress and not is_transient_status(answer["status"]):
                held.progress_refused(time.monotonic(), progress)
            else:
                held.beat_unanswered(time.monotonic(), had_progress=bool(progress), is_foreign=False)
            return
        held.beat_accepted(sent, progress)
        if self._held.get(held.task.assignment["id"]) is not held:
            return  # It was given up meanwhile.
        if not held.is_confirmed:
            held.is_confirmed = True
            if answer.get("cancel") or self._stop.is_set():
                self._end(held, {"assignment_id": held.task.assignment["id"], "release": None})
            else:
                self._begin(held)
        elif answer.get("cancel") and not held.task.is_stopped:
            held.task._stopped.set()
            self._stop_later(held)

    def _lose(self, held: Assigned) -> None:
        held.is_lost = True
        self._changed.tell()
        if not held.is_confirmed:
            self._drop(held.task.assignment["id"])
            return
        held.task._stopped.set()
        self._stop_later(held, max(0.0, held.dropped_at - time.monotonic()))

    def _stop_later(self, held: Assigned, most: float = float("inf")) -> None:
        """Cancels a coroutine that does not end by itself. Threads cannot be stopped: they must look at `is_stopped`."""
        asyncio.get_running_loop().call_later(min(self.grace_seconds, most), self._cancel, held)

    @staticmethod
    def _cancel(held: Assigned) -> None:
        # The thread of a function would go on without the task that waits for it.
        if held.runner is not None and not held.in_thread:
            held.runner.cancel()

    # Leaving

    async def _leave(self) -> None:
        taking_back = asyncio.create_task(self._take_back())
        taking_back.add_done_callback(lambda _: self._changed.tell())
        try:
            await self._drain()
            while not (taking_back.done() or self._leaves_at_once):
                await self._changed.after(self._changed.count)
            await self._empty(10.0)
        finally:
            taking_back.cancel()
            await asyncio.gather(taking_back, return_exceptions=True)
        self.summary.lost += len(self._held)

    async def _drain(self) -> None:
        await self._empty(self.drain_seconds)
        for held in self._held.values():
            held.task._stopped.set()
        await self._empty(self.grace_seconds)
        for held in list(self._held.values()):
            self._cancel(held)
        # The items of functions that still run stay with this worker: nobody else may begin them meanwhile.
        if (functions := sum(held.in_thread for held in self._held.values())) and not self._leaves_at_once:
            log.warning("%d functions have not stopped; the worker waits for them, until a second signal", functions)
        while not self._leaves_at_once and any(map(self._is_running, self._held.values())):
            await self._changed.after(self._changed.count)

    @staticmethod
    def _is_running(held: Assigned) -> bool:
        return not held.is_lost and held.runner is not None and not held.runner.done()

    async def _empty(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._held and not self._leaves_at_once and time.monotonic() < deadline:
            await self._changed.after(self._changed.count, max(0.0, deadline - time.monotonic()))
