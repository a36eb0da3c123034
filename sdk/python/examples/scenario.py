"""Helpers of the five examples: checks, waiting, and workers.

An example submits work, processes it, causes failures, and checks every promise that it describes; the first broken
promise is its error. It waits for events, never for an amount of time.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from treeline import ApiError, AsyncClient, Client, Failure, Summary, Task, Worker
from treeline.types import Item, Job

#: Longest wait for any event of an example, in seconds.
TIMEOUT = 120.0


class Broken(Exception):
    """A promise was not kept."""


def expect(kept: bool, promise: str, found: object = "") -> None:
    """Checks a promise."""
    if not kept:
        raise Broken(f"{promise}: {found}")


def say(line: str) -> None:
    """Prints a line of the output."""
    print(f"  {line}", flush=True)


def new_word() -> str:
    """A unique word, for keys that must be new."""
    return secrets.token_hex(4)


def refused(call: Callable[[], Any], code: str, what: str) -> ApiError:
    """Makes a call that must fail with this code."""
    try:
        call()
    except ApiError as error:
        expect(error.code == code, f"{what}: expected {code}", error)
        return error
    raise Broken(f"{what}: expected {code}, but it was done")


def prepare(client: Client, *types: dict[str, Any]) -> None:
    """Creates the job types, and cancels our trees that an interrupted run left behind."""
    me = client.me()["name"]
    for spec in types:
        client.put_job_type(**spec)
        for status in ("waiting", "running"):
            for job in client.jobs(root=True, status=status, type=spec["name"]):
                if job["owner"]["name"] == me:
                    cancel_if_open(client, job["id"])


def cancel_if_open(client: Client, job_id: str) -> None:
    try:
        client.cancel(job_id, reason="left by an interrupted run")
    except ApiError as error:
        if error.code != "job_completed":
            raise


def complete(client: Client, root: str) -> Job:
    """Waits until a tree is complete."""
    return client.wait(root, timeout=TIMEOUT)


def until(client: Client, root: str, is_reached: Callable[[Job], bool]) -> Job:
    """Waits until a job with everything below it satisfies a condition."""
    for state in client.watch(root):
        if is_reached(state):
            return state
    state = client.job(root)
    expect(is_reached(state), "the job completed too early", state["message"])
    return state


def find(tree: Job, key: str) -> Job:
    """The job of a key in a tree."""
    jobs = [tree]
    for job in jobs:
        if job["key"] == key:
            return job
        jobs.extend(job.get("children") or [])
    raise Broken(f"there is no job {key} in the tree")


def only_item(client: Client, **filters: Any) -> Item:
    """The only item that a filter finds."""
    items = list(client.items(**filters))
    expect(len(items) == 1, "expected one item", len(items))
    return items[0]


def page(client: Client, root: str) -> str:
    """Address of a tree's page, for people."""
    return f"{client.url}/jobs/{root}"


class RunningWorker:
    """A worker in a thread of its own."""

    def __init__(self, client: Client, types: Sequence[str], handler: Callable[[Task], Any], **options: Any) -> None:
        self.summary = Summary()
        self._client = client
        self._options: dict[str, Any] = {"types": types, "handler": handler, **options}
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        async with AsyncClient(self._client.url) as client:
            self._worker = Worker(client, **self._options)
            self._loop = asyncio.get_running_loop()
            self._is_ready.set()
            self.summary = await self._worker.run_async()

    def start(self) -> None:
        self._thread.start()
        self._is_ready.wait(TIMEOUT)

    def stop(self) -> Summary:
        """Drains the worker."""
        if self._loop is not None and self._worker is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._worker.stop)
        self._thread.join(TIMEOUT)
        return self.summary


@contextmanager
def working(
    client: Client, types: Sequence[str], handler: Callable[[Task], Any], **options: Any
) -> Iterator[RunningWorker]:
    """Runs a worker as long as the block runs."""
    worker = RunningWorker(client, types, handler, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


def not_retryable(message: str, kind: str) -> Failure:
    """A failure that no retry can fix."""
    return Failure(message, kind=kind, retryable=False)


def run(name: str, scenario: Callable[[Client], str]) -> None:
    """Runs an example against the server in the environment: `TREELINE_URL`, `TREELINE_TOKEN`."""
    print(name, flush=True)
    with Client() as client:
        try:
            print(scenario(client))
        except (Broken, ApiError, TimeoutError) as error:
            sys.exit(f"{name}: {error}")
