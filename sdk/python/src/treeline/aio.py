"""Asynchronous client of the Treeline API."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import httpx

from . import types as t
from ._aio_management import AsyncManagement, Json
from ._lines import Lines
from ._retry import backoff, is_foreign, is_transient, may_repeat, problem_of, retry_after
from ._sse import Parser
from .errors import ApiError, ConnectionFailed, TreelineError, UnexpectedResponse

#: Header of resumable uploads.
TUS = {"Tus-Resumable": "1.0.0"}
#: Bytes of a file that are sent with one request; what a broken connection costs.
CHUNK = 8 * 1024 * 1024
#: Seconds without a byte after which an event stream counts as broken; the server sends one every 15.
SILENCE = 45.0
#: Seconds of one long poll.
POLL = 25
#: Seconds before an event stream is opened again that the server has ended, unless it says another time.
REOPEN = 5.0
#: Bytes of a piece that are written at once; each write has a timeout of its own.
PART = 64 * 1024
#: Seconds after the first failed attempt without progress after which an upload fails, and timeout of its requests.
UPLOAD_STALL = 120.0
#: Seconds within which the server must say the offset after the last piece: it assembles the whole file first.
ASSEMBLY_TIMEOUT = 300.0
#: Shortest `Retry-After` of a quota that waiting does not free.
LASTING_QUOTA = 60.0


class AsyncClient(AsyncManagement):
    """Client of one server, with one token.

    `url` and `token` default to the environment variables `TREELINE_URL` and `TREELINE_TOKEN`. Calls that can be
    repeated without doing anything twice are sent again for `retry_timeout` seconds while the server is busy or away;
    other calls not if the server may already have run them.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_timeout: float = 30.0,
        timeout: float = 40.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        base = (url or os.environ.get("TREELINE_URL") or "http://127.0.0.1:3000").rstrip("/")
        token = token or os.environ.get("TREELINE_TOKEN")
        self.url = base
        self.retry_timeout = retry_timeout
        self._http = http or httpx.AsyncClient(timeout=timeout)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    # Any call

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool | None = None,
        retry_timeout: float | None = None,
    ) -> Any:
        """Sends any request of the API and returns the JSON of its response, or `None`.

        `path` begins after `/api/v1`. `idempotent` says that the request may be sent twice; by default this is true of
        GET, PUT, and DELETE, and of requests with an `Idempotency-Key`. Raises `ApiError` and `ConnectionFailed`.
        """
        response = await self._send(method, path, body, params, headers, idempotent, retry_timeout)
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise UnexpectedResponse(f"{method} {path}: the response is not JSON") from error

    async def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool | None = None,
        retry_timeout: float | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        stream: bool = False,
        timeout: httpx.Timeout | None = None,
    ) -> httpx.Response:
        """Sends a request. With `stream`, the caller reads the body of the response and closes it."""
        sent = {**self._headers, **(headers or {})}
        keyed = any(name.lower() == "idempotency-key" for name in sent)
        if idempotent is None:
            idempotent = method in ("GET", "PUT", "DELETE", "HEAD") or keyed
        if body is not None:
            content = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        given = {name: value for name, value in (params or {}).items() if value is not None}
        deadline = time.monotonic() + (self.retry_timeout if retry_timeout is None else retry_timeout)
        tries = 0
        while True:
            tries += 1
            request = self._http.build_request(
                method,
                f"{self.url}/api/v1{path}",
                content=content,
                params=_query(given),
                # As bytes: httpx takes only ASCII text, the server UTF-8.
                headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                timeout=self._http.timeout if timeout is None else timeout,
            )
            try:
                response = await self._http.send(request, stream=stream)
                is_answer = response.is_success or response.status_code == 304
                if stream and not is_answer:
                    await response.aread()
            except httpx.DecodingError as error:
                raise UnexpectedResponse(f"{method} {path}: the response cannot be decoded: {error}") from error
            except httpx.RequestError as error:
                done_nothing = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                pause = backoff(tries)
                if not (done_nothing or idempotent) or time.monotonic() + pause > deadline:
                    raise ConnectionFailed(f"{method} {path}: {error or type(error).__name__}") from error
            else:
                if is_answer:
                    return response
                failed = _api_error(f"{method} {path}", response)
                pause = max(failed.retry_after or 0.0, backoff(tries))
                if not may_repeat(failed, idempotent=idempotent, keyed=keyed) or time.monotonic() + pause > deadline:
                    raise failed
            await asyncio.sleep(pause)

    async def pages(self, path: str, params: Mapping[str, Any] | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yields the rows of a list, page by page."""
        given = dict(params or {})
        while True:
            page = await self.request("GET", path, params=given)
            for row in page["data"]:
                yield row
            if page.get("next_cursor") is None:
                return
            given["cursor"] = page["next_cursor"]

    async def lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yields the JSON lines of a stream of results. A stream that breaks off is continued where it ended."""
        after: str | None = None
        failures = 0
        while True:
            response = await self._send("GET", path, params={"after": after}, stream=True)
            try:
                split = Lines()
                async for piece in response.aiter_bytes():
                    for text in filter(None, split.feed(piece)):
                        line = json.loads(text)
                        after, failures = line["item_id"], 0
                        yield line
                if text := split.end():
                    yield json.loads(text)
                return
            except (httpx.RequestError, json.JSONDecodeError) as error:
                failures += 1
                if failures > 5:
                    raise ConnectionFailed(f"GET {path}: {error}") from error
            finally:
                await response.aclose()
            await asyncio.sleep(backoff(failures))

    async def download(self, path: str, target: str | os.PathLike[str], **params: Any) -> None:
        """Writes the body of a response to a file, such as `/jobs/ID/failures` with `format="csv"`.

        The file appears when it is complete; until then, it has the suffix `.part`.
        """
        part = Path(f"{os.fspath(target)}.part")
        response = await self._send("GET", path, params=params, stream=True)
        try:
            with part.open("wb") as file:
                async for piece in response.aiter_bytes():
                    file.write(piece)
            part.replace(target)
        except httpx.RequestError as error:
            raise ConnectionFailed(f"GET {path}: {error or type(error).__name__}") from error
        finally:
            part.unlink(missing_ok=True)
            await response.aclose()

    # Jobs

    async def me(self) -> t.CurrentCaller:
        """Owner of the token, and its scopes."""
        return cast(t.CurrentCaller, await self.request("GET", "/me"))

    async def create_job(self, job: t.NewJob | Mapping[str, Any], *, key: str | None = None) -> t.Job:
        """Creates a tree of jobs. With `key` (Idempotency-Key), the same call again returns the same tree.

        Without a key, the client chooses an id, so that a repeated request cannot create two trees.
        """
        body = dict(job)
        if key is None:
            body.setdefault("id", str(uuid.uuid4()))
            # The server answers a repeated id with the tree that has it.
            return cast(t.Job, await self.request("PUT", f"/jobs/{body['id']}", body=_without(body, "id")))
        return cast(t.Job, await self.request("POST", "/jobs", body=body, headers={"Idempotency-Key": key}))

    async def job(self, job_id: str) -> t.Job:
        """One job with the jobs below it."""
        return cast(t.Job, await self.request("GET", f"/jobs/{job_id}"))

    def jobs(self, **filters: Any) -> AsyncIterator[t.Job]:
        """Jobs, newest first. Filters are those of `GET /jobs`, such as `type="import"` or `root=True`."""
        return cast(AsyncIterator[t.Job], self.pages("/jobs", filters))

    async def wait(self, job_id: str, *, timeout: float | None = None) -> t.Job:
        """Waits until a job and everything below it is complete. Raises `TimeoutError` after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        job = await self.job(job_id)
        while job["tree"]["status"] != "completed":
            left = POLL if deadline is None else min(POLL, int(deadline - time.monotonic()))
            if left <= 0:
                raise TimeoutError(f"job {job_id} is not complete after {timeout} s: {job['message']}")
            job = await self._newer_job(job_id, job["version"], left) or job
        return job

    async def _newer_job(self, job_id: str, version: int, wait_seconds: int) -> t.Job | None:
        """Waits for a newer version of a job; `None` if there is none in time."""
        headers, params = {"If-None-Match": f'"{version}"'}, {"wait_seconds": wait_seconds}
        response = await self._send("GET", f"/jobs/{job_id}", params=params, headers=headers)
        return None if response.status_code == 304 else cast(t.Job, response.json())

    async def add_items(
        self, job_id: str, items: Iterable[t.NewItem | Mapping[str, Any]], *, seal: bool = False, key: str | None = None
    ) -> t.ItemsAdded:
        """Adds items, in one call. With `key`, the same call again adds nothing."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        params = {"seal": "true"} if seal else {}
        answer = await self.request("POST", f"/jobs/{job_id}/items", body=list(items), params=params, headers=headers)
        return cast(t.ItemsAdded, answer)

    async def seal(self, job_id: str) -> t.Job:
        """Ends the adding of items to a job."""
        return cast(t.Job, await self.request("POST", f"/jobs/{job_id}/seal", idempotent=True))

    async def cancel(self, job_id: str, *, reason: str | None = None) -> t.Job:
        """Cancels a job and everything below it."""
        body = {"reason": reason} if reason else {}
        return cast(t.Job, await self.request("POST", f"/jobs/{job_id}/cancel", body=body, idempotent=True))

    def results(self, job_id: str) -> AsyncIterator[t.ResultLine]:
        """Results of a job, as a stream."""
        return cast(AsyncIterator[t.ResultLine], self.lines(f"/jobs/{job_id}/results"))

    def failures(self, job_id: str) -> AsyncIterator[t.FailureLine]:
        """Failed items of a job with their errors, as a stream."""
        return cast(AsyncIterator[t.FailureLine], self.lines(f"/jobs/{job_id}/failures"))

    async def watch(self, job_id: str) -> AsyncIterator[t.Job]:
        """Yields a job with everything below it: now, and after each change, until it is complete.

        A stream that breaks is opened again; a server that has too many is asked by long polls. Ends early if the job is
        deleted.
        """
        seen = -1
        failures = 0
        silence = httpx.Timeout(10.0, read=SILENCE)
        while True:
            pause, ended_as = 0.0, ""
            try:
                headers = {"Accept": "text/event-stream"}
                response = await self._send(
                    "GET", f"/jobs/{job_id}/events", headers=headers, retry_timeout=0, stream=True, timeout=silence
                )
                try:
                    split, parser = Lines(), Parser()
                    async for piece in response.aiter_bytes():
                        for event in (event for line in split.feed(piece) for event in parser.feed(line)):
                            ended_as, failures = event.name, 0
                            if event.name == "removed":
                                return
                            if event.name in ("busy", "bye"):
                                continue
                            job = await self.job(job_id)
                            if job["version"] > seen:
                                seen = job["version"]
                                yield job
                            if job["tree"]["status"] == "completed":
                                return
                finally:
                    await response.aclose()
                if ended_as in ("", "busy", "bye"):
                    pause = REOPEN if parser.retry is None else parser.retry
            except ApiError as error:
                if error.code == "job_removed":
                    return
                if not may_repeat(error, idempotent=True):
                    raise
                failures, pause = failures + 1, error.retry_after or 0.0
                if error.status == 429:
                    ended_as, pause = "busy", error.retry_after or REOPEN
            except (ConnectionFailed, httpx.RequestError):
                failures += 1
            reopen_at = time.monotonic() + max(pause, backoff(failures))
            while ended_as == "busy" and (left := int(reopen_at - time.monotonic())) > 0:
                # The server has too many streams: it is asked without one meanwhile.
                try:
                    newer = await self._newer_job(job_id, max(seen, 0), min(left, POLL))
                except ApiError as error:
                    if error.code == "job_removed":
                        return
                    if not may_repeat(error, idempotent=True):
                        raise
                    newer = None
                except ConnectionFailed:
                    newer = None
                if newer is not None and newer["version"] > seen:
                    seen = newer["version"]
                    yield newer
                    if newer["tree"]["status"] == "completed":
                        return
                await asyncio.sleep(1)
            await asyncio.sleep(max(0.0, reopen_at - time.monotonic()))

    # Items

    async def item(self, item_id: str) -> t.Item:
        """One item with its payload, result, and last error."""
        return cast(t.Item, await self.request("GET", f"/items/{item_id}"))

    def items(self, **filters: Any) -> AsyncIterator[t.Item]:
        """Items, those of the newest job first. Filters are those of `GET /items`, such as `job=job_id` or `state="dead"`."""
        return cast(AsyncIterator[t.Item], self.pages("/items", filters))

    async def retry(self, item_id: str, **body: Any) -> t.Item:
        """Puts a failed item back, with another payload if one is given."""
        return cast(t.Item, await self.request("POST", f"/items/{item_id}/retry", body=body))

    async def send_event(
        self, item_id: str, name: str, data: Any = None, *, reason: str | None = None, key: str | None = None
    ) -> t.Item:
        """Sends an item the event that it waits for. With `key`, the same call again has no effect."""
        body: dict[str, Any] = {"name": name, "data": data}
        if reason is not None:
            body["reason"] = reason
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return cast(t.Item, await self.request("POST", f"/items/{item_id}/events", body=body, headers=headers))

    # Files

    async def upload(
        self,
        path: str | os.PathLike[str],
        *,
        filename: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> t.Upload:
        """Stores a file. `progress` is called with the bytes sent so far and their total.

        The file is sent in pieces, so a broken connection costs one piece at most. An upload without progress for two
        minutes fails.
        """
        file = Path(path)
        total = file.stat().st_size
        created = await self._send(
            "POST",
            "/uploads/resumable",
            params={"filename": filename or file.name},
            headers={**TUS, "Upload-Length": str(total), "Idempotency-Key": str(uuid.uuid4())},
        )
        upload_id = created.headers["Location"].rsplit("/", 1)[-1]
        offset = int(created.headers.get("Upload-Offset", "0"))
        if progress:
            progress(offset, total)
        with file.open("rb") as source:
            await self._send_pieces(source, f"/uploads/resumable/{upload_id}", offset, total, progress)
        return cast(t.Upload, await self.request("GET", f"/uploads/{upload_id}"))

    async def _send_pieces(
        self, source: BinaryIO, path: str, offset: int, total: int, progress: Callable[[int, int], None] | None
    ) -> None:
        """Sends a file piece by piece. After an error that may pass, the server is asked where to go on."""
        # Number of failed attempts since the offset last grew, and the time of the first one.
        failures, stalled_at = 0, 0.0
        last: ApiError | ConnectionFailed | None = None
        is_known = True
        while offset < total:
            before = offset
            try:
                if is_known:
                    offset = await self._send_piece(source, path, offset, total)
                else:
                    offset = await self._received(path, is_last=offset + CHUNK >= total)
            except (ApiError, ConnectionFailed) as error:
                failures += 1
                stalled_at = stalled_at if failures > 1 else time.monotonic()
                # After a piece, only the server knows whether anything has moved: some of it may have arrived.
                if not _may_resume(error) or (not is_known and time.monotonic() - stalled_at >= UPLOAD_STALL):
                    raise
                last, is_known = error, False
                await asyncio.sleep(max(backoff(failures), _pause_of(error)))
                continue
            is_known = True
            if offset > before:
                failures, last = 0, None
            elif last is not None and time.monotonic() - stalled_at >= UPLOAD_STALL:
                raise last
            if progress:
                progress(offset, total)

    async def _send_piece(self, source: BinaryIO, path: str, offset: int, total: int) -> int:
        """Sends the piece at an offset, once, and returns the new offset."""
        source.seek(offset)
        piece = source.read(min(CHUNK, total - offset))
        if not piece:
            raise ValueError(f"{source.name}: the file has become shorter than {total} bytes")
        headers = TUS | {
            "Upload-Offset": str(offset),
            "Content-Length": str(len(piece)),
            "Content-Type": "application/offset+octet-stream",
        }
        limit = self._limit(UPLOAD_STALL)
        response = await self._send("PATCH", path, headers=headers, content=_parts(piece), retry_timeout=0, timeout=limit)
        new = _offset_of(response)
        if new <= offset:
            raise ConnectionFailed(f"PATCH {path}: the response has no new Upload-Offset")
        return new

    async def _received(self, path: str, *, is_last: bool) -> int:
        """Number of bytes that the server has, asked after a piece, which may be the last one."""
        # GET: a refusal says why, which that of a HEAD cannot.
        limit = self._limit(ASSEMBLY_TIMEOUT if is_last else UPLOAD_STALL)
        return _offset_of(await self._send("GET", path, headers=TUS, retry_timeout=0, timeout=limit))

    def _limit(self, seconds: float) -> httpx.Timeout:
        """Time limit of one read or write; connections have that of other requests."""
        return httpx.Timeout(seconds, connect=self._http.timeout.connect or 10.0)

    async def import_file(
        self,
        path: str | os.PathLike[str],
        job_type: str,
        *,
        progress: Callable[[int, int], None] | None = None,
        **job: Any,
    ) -> t.Job:
        """Uploads a file and starts a job in which each row is an item. `job` has more fields of the job."""
        upload = await self.upload(path, progress=progress)
        options = dict(job.pop("upload", {}))
        return await self.create_job({"type": job_type, **job, "upload": {**options, "id": upload["id"]}})

    # Work

    async def claim(
        self,
        worker_id: str,
        types: Sequence[str] = (),
        *,
        maximum: int = 1,
        wait_seconds: int = 0,
        item_ids: Sequence[str] | None = None,
    ) -> list[t.Assignment]:
        """Claims up to `maximum` items. A repeated request returns the same ones."""
        body: dict[str, Any] = {"worker_id": worker_id, "types": list(types), "max": maximum}
        body |= {"wait_seconds": wait_seconds, "claim_id": str(uuid.uuid4())}
        if item_ids is not None:
            body["item_ids"] = list(item_ids)
        return await self._claim(body)

    async def _claim(self, body: Json, *, retry_timeout: float | None = None) -> list[t.Assignment]:
        answer = await self.request("POST", "/assignments", body=body, idempotent=True, retry_timeout=retry_timeout)
        return cast(list[t.Assignment], _answers("POST /assignments", answer, "assignments"))

    async def finish(self, endings: Sequence[Mapping[str, Any]]) -> list[t.AssignmentEndingResult]:
        """Ends assignments. The same endings again have the same answers."""
        path = "/assignments/finish"
        answer = await self.request("POST", path, body={"endings": list(endings)}, idempotent=True)
        return cast(list[t.AssignmentEndingResult], _answers(f"POST {path}", answer, "endings", len(endings)))

    async def heartbeat(
        self, heartbeats: Sequence[Mapping[str, Any]], *, retry_timeout: float = 0.0
    ) -> list[t.AssignmentHeartbeatResult]:
        """Extends the leases of assignments."""
        path = "/assignments/heartbeat"
        body = {"heartbeats": list(heartbeats)}
        answer = await self.request("POST", path, body=body, idempotent=True, retry_timeout=retry_timeout)
        return cast(list[t.AssignmentHeartbeatResult], _answers(f"POST {path}", answer, "heartbeats", len(heartbeats)))

    async def step(self, assignment_id: str, name: str, data: Any = None) -> Any:
        """Records a recovery point and its data. The next attempt receives it."""
        body = {"name": name, "data": data}
        return await self.request("POST", f"/assignments/{assignment_id}/step", body=body, idempotent=True)

    async def release(self, assignment_id: str, *, retry_after_seconds: float | None = None) -> Any:
        """Gives an item back without a failure."""
        body = {} if retry_after_seconds is None else {"retry_after_seconds": retry_after_seconds}
        return await self.request("POST", f"/assignments/{assignment_id}/release", body=body, idempotent=True)

    async def wait_for_event(self, assignment_id: str, name: str, **body: Any) -> t.AssignmentEnded:
        """Ends an attempt to wait for an event. `body` may have `timeout_seconds` and a `form` for people."""
        ended = await self.request("POST", f"/assignments/{assignment_id}/wait", body={"name": name, **body}, idempotent=True)
        return cast(t.AssignmentEnded, ended)

    async def log(self, assignment_id: str, lines: Sequence[Mapping[str, Any]]) -> Any:
        """Adds lines to the log of an attempt."""
        return await self.request("POST", f"/assignments/{assignment_id}/logs", body={"lines": list(lines)}, retry_timeout=5)


def _query(params: Mapping[str, Any]) -> dict[str, str]:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {name: text(value) for name, value in params.items()}


def _offset_of(response: httpx.Response) -> int:
    try:
        return int(response.headers["Upload-Offset"])
    except (KeyError, ValueError) as error:
        raise ConnectionFailed(f"{response.request.url}: the response has no Upload-Offset") from error


async def _parts(piece: bytes) -> AsyncIterator[bytes]:
    """Yields a piece in parts, so that only a connection that is silent reaches the timeout of a write."""
    for at in range(0, len(piece), PART):
        yield piece[at : at + PART]


def _may_resume(error: TreelineError) -> bool:
    """True if an upload can continue after this error, where the server says."""
    if not isinstance(error, ApiError):
        return True
    # The body of the piece paused for too long; the server has what came before.
    if error.code in ("wrong_offset", "invalid_body"):
        return True
    if error.code == "quota_exceeded":
        return error.retry_after is not None and error.retry_after < LASTING_QUOTA
    return error.code != "insufficient_storage" and (is_transient(error) or is_foreign(error))


def _pause_of(error: TreelineError) -> float:
    """Seconds of the `Retry-After` of an error."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0


def _without(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


def _api_error(call: str, response: httpx.Response) -> ApiError:
    try:
        body = response.json()
    except ValueError:
        body = None
    problem = problem_of(response.headers.get("Content-Type", ""), body)
    if problem is None:
        location = response.headers.get("Location")
        problem = {"detail": response.text[:200] if location is None else f"redirected to {location}"}
    return ApiError(call, response.status_code, problem, retry_after(response.headers.get("Retry-After")))


def _answers(call: str, answer: Any, name: str, count: int | None = None) -> list[Any]:
    """A list of the response. Raises `UnexpectedResponse` if there is none: something else has answered."""
    rows = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(rows, list) or count not in (None, len(rows)):
        raise UnexpectedResponse(f"{call}: the response is not from Treeline")
    return rows
