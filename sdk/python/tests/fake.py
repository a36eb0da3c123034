"""A server made up by a test, for what a real one does not do at will."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from treeline import AsyncClient, Summary, Worker

#: What a test answers to a request: a response, a JSON body, or `None` for the usual answer.
Answer = Callable[[str, Any], httpx.Response | dict[str, Any] | None]


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    """A problem document of Treeline."""
    media_type = {"Content-Type": "application/problem+json"}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    document = {"type": f"urn:treeline:problem:{code}", "status": status, "code": code}
    return httpx.Response(status, json=document, headers=media_type | given)


class FakeServer:
    """Hands out `items` assignments of one item each, accepts every ending, and records the requests."""

    def __init__(
        self,
        items: int = 1,
        *,
        heartbeat_seconds: float = 60.0,
        answer: Answer = lambda _, __: None,
        before: Callable[[str, Any], Awaitable[None]] | None = None,
        retry_timeout: float = 30.0,
        **item: Any,
    ) -> None:
        self.left, self.heartbeat_seconds, self.answer, self.item = items, heartbeat_seconds, answer, item
        self.before, self.retry_timeout = before, retry_timeout
        self.requests: list[tuple[str, Any]] = []

    def sent(self, ending: str) -> list[Any]:
        """Bodies of the requests whose path has this ending."""
        return [body for path, body in self.requests if path.endswith(ending)]

    def client(self, **options: Any) -> AsyncClient:
        return AsyncClient("http://fake", "token", http=httpx.AsyncClient(transport=httpx.MockTransport(self._handle)), **options)

    async def run(self, handler: Callable[..., Any], until: Callable[[], bool], **options: Any) -> Summary:
        """Runs a worker until a condition holds; then it leaves."""
        async with self.client(retry_timeout=self.retry_timeout) as client:
            worker = Worker(client, ["t"], handler, **options)
            running = asyncio.create_task(worker.run_async())
            try:
                async with asyncio.timeout(20):
                    while not until():
                        await asyncio.sleep(0.01)
            finally:
                worker.stop()
                summary = await running
            return summary

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.001)
        path, body = request.url.path.removeprefix("/api/v1"), json.loads(request.content) if request.content else None
        self.requests.append((path, body))
        if self.before is not None:
            await self.before(path, body)
        answer = self.answer(path, body)
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, json=self._usual(path, body) if answer is None else answer)

    def _usual(self, path: str, body: Any) -> dict[str, Any]:
        if path == "/assignments":
            count = 0 if body.get("item_ids") == [] else min(self.left, body["max"])
            self.left -= count
            return {"assignments": [self._assignment(self.left + at) for at in range(count)]}
        for kind in ("heartbeats", "endings"):
            if body and kind in body:
                return {kind: [{"assignment_id": one["assignment_id"], "status": 200} for one in body[kind]]}
        return {}

    def _assignment(self, number: int) -> dict[str, Any]:
        item = {"id": f"item-{number}", "type": "t", "payload": number, **self.item}
        return {"id": f"assignment-{number}", "item": item, "attempt": 1, "heartbeat_seconds": self.heartbeat_seconds}
