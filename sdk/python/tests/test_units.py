"""Parts that need no server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from treeline import ApiError, Client, ConnectionFailed, InvalidWebhook, UnexpectedResponse, webhooks
from treeline._changes import Changes
from treeline._retry import is_foreign, is_refusal, is_transient, may_repeat, retry_after
from treeline._sse import Event, Parser

from .fake import problem


def sign(secret: str, body: str, at: int, message_id: str = "msg_1") -> dict[str, str]:
    signed = f"{message_id}.{at}.{body}".encode()
    value = base64.b64encode(hmac.new(webhooks.key_of(secret), signed, hashlib.sha256).digest()).decode()
    return {"Webhook-Id": message_id, "webhook-timestamp": str(at), "Webhook-Signature": f"v1,{value}"}


def test_a_valid_webhook_is_returned_and_a_changed_one_is_not() -> None:
    now = int(time.time())
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    for one in (secret, "plain-secret"):
        headers = sign(one, '{"type":"tree.completed"}', now)
        assert webhooks.verify('{"type":"tree.completed"}', headers, one) == {"type": "tree.completed"}
        assert webhooks.verify(b'{"type":"tree.completed"}', headers, ["other-one", one])
        for body, given, key in (
            ('{"type":"other"}', headers, one),
            ('{"type":"tree.completed"}', headers, "wrong-secret"),
            ('{"type":"tree.completed"}', headers | {"webhook-timestamp": str(now + 1)}, one),
            ('{"type":"tree.completed"}', {"Webhook-Id": "msg_1"}, one),
        ):
            with pytest.raises(InvalidWebhook):
                webhooks.verify(body, given, key)
    with pytest.raises(InvalidWebhook, match="five minutes"):
        webhooks.verify("{}", sign("plain-secret", "{}", now - 301), "plain-secret")


def test_an_empty_secret_verifies_nothing_and_padding_may_be_missing() -> None:
    now = int(time.time())
    signed = f"msg_1.{now}.{{}}".encode()
    value = base64.b64encode(hmac.new(b"", signed, hashlib.sha256).digest()).decode()
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": f"v1,{value}"}
    for empty in ("", "whsec_"):
        with pytest.raises(ValueError, match="empty"):
            webhooks.verify("{}", headers, empty)
    assert webhooks.verify("{}", sign("secrets", "{}", now), "whsec_c2VjcmV0cw") == {}


def test_the_example_of_the_specification_is_accepted() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,other",
    }
    body = '{"test": 2432232314}'
    assert webhooks.verify(body, headers, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", now=1614265330) == {
        "test": 2432232314
    }


def test_events_are_read_across_lines() -> None:
    parser = Parser()
    lines = [": comment", "event: change", 'data: {"a":', "data: 1}", "", "data: x", ""]
    events = [event for line in lines for event in parser.feed(line)]
    assert events == [Event("change", '{"a":\n1}'), Event("message", "x")] and parser.retry is None
    list(parser.feed("retry: 20000"))
    assert parser.retry == 20


def test_only_safe_calls_are_sent_again() -> None:
    def of(status: int, code: str = "", pause: float | None = None) -> ApiError:
        return ApiError("POST /x", status, {"code": code}, pause)

    for error in (of(503, "busy"), of(503), of(429)):
        assert may_repeat(error, idempotent=False)
    for error in (of(502), of(504), of(503, "database_unavailable", 2)):
        assert not may_repeat(error, idempotent=False) and may_repeat(error, idempotent=True)
    for error in (of(500), of(404), of(409, "conflict", 1), of(409, "duplicate")):
        assert not may_repeat(error, idempotent=True, keyed=True)
    in_progress = of(409, "duplicate", 1)
    assert may_repeat(in_progress, idempotent=True, keyed=True) and not may_repeat(in_progress, idempotent=True)
    assert retry_after("3") == 3.0 and retry_after("100000") == 60.0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0 and retry_after("soon") is None


def test_only_a_problem_document_of_treeline_is_a_refusal() -> None:
    def error_of(response: httpx.Response) -> ApiError:
        with pytest.raises(ApiError) as raised:
            client_of(lambda _: response, retry_timeout=0).retry("item")
        return raised.value

    for refused in (problem(404, "not_found"), problem(422, "invalid_body"), httpx.Response(413, text="too large")):
        assert is_refusal(error_of(refused))
    for answered in (
        httpx.Response(404, text="404 page not found"),
        httpx.Response(403, json={"code": "forbidden"}),
        httpx.Response(401, json={"type": "about:blank", "code": "unauthenticated"}, headers={"Content-Type": "application/problem+json"}),
        httpx.Response(308, headers={"Location": "https://fake/"}),
    ):
        error = error_of(answered)
        assert is_foreign(error) and not is_refusal(error) and error.code == ""
    for passing in (httpx.Response(503, text="no"), problem(429, "quota_exceeded")):
        assert not is_foreign(error_of(passing)) and not is_refusal(error_of(passing))
    page = httpx.Response(200, text="<html>")
    with pytest.raises(UnexpectedResponse) as raised:
        client_of(lambda _: page).retry("item")
    assert is_foreign(raised.value) and not is_transient(raised.value)


def test_a_redirect_is_no_success() -> None:
    redirect = httpx.Response(308, headers={"Location": "https://fake/api/v1/schedules/S"})
    with pytest.raises(ApiError, match="308 : redirected to https://fake/"):
        client_of(lambda _: redirect).delete_schedule("S")


def test_a_key_is_any_text() -> None:
    keys: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.raw[[name for name, _ in request.headers.raw].index(b"Idempotency-Key")][1])
        return httpx.Response(201, json={"id": "J"})

    client_of(answer).create_job({"type": "t"}, key="Löhne-März €")
    assert keys == ["Löhne-März €".encode()]


def test_a_change_is_missed_by_no_waiter() -> None:
    async def scenario() -> None:
        changes = Changes()
        seen = changes.count
        waiters = [asyncio.create_task(changes.after(seen, 60)) for _ in range(3)]
        changes.tell()  # before any of them has begun to wait
        await asyncio.gather(*waiters)
        waiters = [asyncio.create_task(changes.after(changes.count, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        changes.tell()
        await asyncio.gather(*waiters)
        await changes.after(changes.count, 0.01)  # without a change: after its time

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_waiter_is_canceled_even_if_a_change_comes_with_it() -> None:
    async def scenario() -> None:
        changes = Changes()
        waiter = asyncio.create_task(changes.after(changes.count, 60))
        await asyncio.sleep(0)
        changes.tell()
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(scenario())


def client_of(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Client:
    """A client whose requests are answered by the test."""
    return Client("http://fake", "token", http=httpx.Client(transport=httpx.MockTransport(answer)), **options)


def pieces_of(text: str) -> Iterator[bytes]:
    for at in range(0, len(data := text.encode()), 7):
        yield data[at : at + 7]


def test_lines_end_at_line_feeds_only() -> None:
    names = ["Stra\u2028ße", "a\u2029b", "a\x85b", "a\x0bb\x0cc\x1cd"]
    rows = [{"item_id": str(at), "payload": name} for at, name in enumerate(names)]
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, content=pieces_of(text))

    assert list(client_of(answer).results("J")) == rows
    assert len(requests) == 1


def test_events_end_at_line_feeds_only() -> None:
    event = 'event: change\ndata: {"name": "a\u2028\u2028b"}\n\n'

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(200, content=pieces_of(event))
        return httpx.Response(200, json={"version": 1, "tree": {"status": "completed"}})

    assert [job["version"] for job in client_of(answer).watch("J")] == [1]


def test_a_schedule_runs_once_although_the_database_was_away_and_the_first_request_is_still_being_answered() -> None:
    answers = [
        problem(503, "database_unavailable", Retry_After="0"),
        problem(409, "duplicate", Retry_After="0"),
        httpx.Response(200, json={"id": "S"}),
    ]
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        return answers.pop(0)

    assert client_of(answer).run_schedule("S")["id"] == "S"
    assert len(keys) == 3 and len(set(keys)) == 1


def test_a_response_that_cannot_be_decoded_is_an_unexpected_one(tmp_path: Path) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=httpx.ByteStream(b"not gzip"), headers={"Content-Encoding": "gzip"})

    with pytest.raises(UnexpectedResponse, match="cannot be decoded"):
        client_of(answer).me()
    with pytest.raises(ConnectionFailed):
        client_of(answer).download("/jobs/J/results", tmp_path / "results.csv")


def test_a_call_that_the_server_may_have_run_is_not_sent_again() -> None:
    requests: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.path)
        return problem(503, "database_unavailable", Retry_After="0")

    with pytest.raises(ApiError, match="database_unavailable"):
        client_of(answer).retry("item")
    assert len(requests) == 1


class Broken(httpx.SyncByteStream):
    """A body that breaks off."""

    def __iter__(self) -> Iterator[bytes]:
        yield b'{"item_id": "a"}\n'
        raise httpx.RemoteProtocolError("peer closed connection")


def test_a_download_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "results.csv"
    answers = [
        problem(503, "busy", Retry_After="0"),
        httpx.Response(200, stream=Broken()),
        httpx.Response(200, content=b"a,b\n"),
    ]
    client = client_of(lambda _: answers.pop(0))
    with pytest.raises(ConnectionFailed, match="peer closed connection"):
        client.download("/jobs/J/results", target, format="csv")
    assert list(tmp_path.iterdir()) == []
    client.download("/jobs/J/results", target, format="csv")
    assert target.read_bytes() == b"a,b\n" and list(tmp_path.iterdir()) == [target]


def test_a_stream_of_results_goes_on_where_it_broke_off_although_the_server_is_away_for_a_moment() -> None:
    answers = [
        httpx.Response(200, stream=Broken()),
        problem(503, "shutting_down", Retry_After="0"),
        httpx.Response(200, content=b'{"item_id": "b"}\n'),
    ]
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("after"))
        return answers.pop(0)

    assert [line["item_id"] for line in client_of(answer).results("J")] == ["a", "b"]
    assert asked == [None, "a", "a"]


def test_a_server_with_too_many_streams_is_asked_by_long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("treeline.client.time.monotonic", lambda: now[0])
    monkeypatch.setattr("treeline.client.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    requests: list[tuple[float, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        wait = request.url.params.get("wait_seconds")
        requests.append((now[0], "stream" if wait is None else f"wait {wait}"))
        if wait is None:
            return httpx.Response(200, content=b"event: busy\ndata: {}\nretry: 20000\n\n")
        if len(requests) == 2:
            now[0] += 20
            return httpx.Response(304)
        status = "completed" if len(requests) == 5 else "running"
        return httpx.Response(200, json={"version": len(requests), "tree": {"status": status}})

    assert [job["version"] for job in client_of(answer).watch("J")] == [4, 5]
    assert [what for _, what in requests[:3]] == ["stream", "wait 20", "stream"] and requests[2][0] >= 20


def test_a_watch_ends_with_its_job_and_reads_it_by_long_polls_while_there_are_too_many_streams() -> None:
    answers = [
        problem(429, "quota_exceeded", Retry_After="2"),
        httpx.Response(200, json={"version": 7, "tree": {"status": "running"}}),
        problem(410, "job_removed"),
    ]
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("wait_seconds", "stream"))
        return answers.pop(0)

    assert [job["version"] for job in client_of(answer, retry_timeout=0).watch("J")] == [7]
    assert asked[0] == "stream" and asked[1] != "stream" and not answers


Fault = httpx.Response | Exception | None


class Clock:
    """Time of a client: it passes only by pauses and by what a test adds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        self.pauses: list[float] = []
        monkeypatch.setattr("treeline.client.time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class UploadServer:
    """Answers requests for one resumable upload with `faults` first; each of them takes `fault_seconds`.

    Of a piece with the fault `invalid_body`, the first half is stored. The fault `None` is the usual answer.
    """

    def __init__(self, clock: Clock, faults: list[Fault], fault_seconds: float = 0.0) -> None:
        self.clock, self.faults, self.fault_seconds = clock, faults, fault_seconds
        self.stored = b""
        self.sent: list[str] = []
        self.limits: list[dict[str, float]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request.method)
        self.limits.append(request.extensions["timeout"])
        if request.method == "POST":
            return httpx.Response(201, headers={"Location": "/api/v1/uploads/resumable/U", "Upload-Offset": "0"})
        if self.faults and (fault := self.faults.pop(0)) is not None:
            return self.fail(fault, request.content)
        if request.method == "PATCH":
            assert int(request.headers["Upload-Offset"]) == len(self.stored)
            assert int(request.headers["Content-Length"]) == len(request.content)
            self.stored += request.content
        return httpx.Response(200, headers={"Upload-Offset": str(len(self.stored))}, json={})

    def fail(self, fault: httpx.Response | Exception, content: bytes) -> httpx.Response:
        self.clock.now += self.fault_seconds
        if isinstance(fault, Exception):
            raise fault
        if b"invalid_body" in fault.content:
            self.stored += content[: len(content) // 2]
        return fault


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("treeline.client.CHUNK", 100_000)
    return Clock(monkeypatch)


def file_of(tmp_path: Path, size: int) -> Path:
    file = tmp_path / "rows.csv"
    file.write_bytes(bytes(n % 251 for n in range(size)))
    return file


def test_an_upload_goes_on_where_it_broke_off(tmp_path: Path, clock: Clock) -> None:
    file = file_of(tmp_path, 250_000)
    reloading = httpx.Response(404, text="404 page not found")
    faults: list[Fault] = [
        httpx.Response(502),
        # Of the question.
        problem(503, "database_unavailable"),
        reloading,
        httpx.Response(200, text="<html>"),
        httpx.ReadError("broken"),
        problem(500, "internal"),
        problem(429, "quota_exceeded", Retry_After="59"),
        reloading,
        None,
        problem(422, "invalid_body"),
    ]
    server = UploadServer(clock, faults)
    client_of(server.answer, retry_timeout=0).upload(file)
    assert server.stored == file.read_bytes() and not faults
    assert server.sent.count("PATCH") == 4 and 59.0 in clock.pauses


def test_a_piece_that_takes_longer_than_the_stall_time_may_fail(tmp_path: Path, clock: Clock) -> None:
    file = file_of(tmp_path, 150_000)
    server = UploadServer(clock, [httpx.ReadTimeout("silent")], fault_seconds=500.0)
    client_of(server.answer, retry_timeout=0).upload(file)
    assert server.stored == file.read_bytes()
    pieces = [limit for method, limit in zip(server.sent, server.limits, strict=True) if method == "PATCH"]
    assert all(limit["read"] == limit["write"] == 120.0 for limit in pieces)


def test_a_slow_piece_after_a_failed_attempt_ends_an_upload_only_if_nothing_of_it_has_arrived(
    tmp_path: Path, clock: Clock
) -> None:
    file = file_of(tmp_path, 150_000)
    faults = [httpx.Response(502), None, problem(422, "invalid_body")]
    server = UploadServer(clock, faults, fault_seconds=500.0)
    client_of(server.answer, retry_timeout=0).upload(file)
    assert server.stored == file.read_bytes()
    server = UploadServer(clock, [httpx.Response(502), None, problem(503, "busy")], fault_seconds=500.0)
    with pytest.raises(ApiError) as raised:
        client_of(server.answer, retry_timeout=0).upload(file)
    assert (raised.value.code, server.sent) == ("busy", ["POST", "PATCH", "GET", "PATCH", "GET"])


def test_an_upload_that_does_not_move_fails_with_the_last_error(tmp_path: Path, clock: Clock) -> None:
    faults: list[Fault] = [*[httpx.Response(404, text="x")] * 3, problem(503, "busy"), httpx.Response(502)]
    server = UploadServer(clock, faults, fault_seconds=45.0)
    with pytest.raises(ApiError) as raised:
        client_of(server.answer, retry_timeout=0).upload(file_of(tmp_path, 1_000))
    assert (raised.value.code, server.sent) == ("busy", ["POST", "PATCH", "GET", "GET", "GET"])


@pytest.mark.parametrize(
    "refusal",
    [
        problem(429, "quota_exceeded", Retry_After="60"),
        problem(507, "insufficient_storage"),
        problem(404, "not_found"),
        httpx.Response(413),
    ],
)
@pytest.mark.parametrize("is_of_piece", [True, False])
def test_a_refusal_ends_an_upload(refusal: httpx.Response, is_of_piece: bool, tmp_path: Path, clock: Clock) -> None:
    server = UploadServer(clock, [refusal] if is_of_piece else [httpx.Response(502), refusal])
    with pytest.raises(ApiError) as raised:
        client_of(server.answer, retry_timeout=0).upload(file_of(tmp_path, 1_000))
    assert raised.value.status == refusal.status_code and not server.faults


def test_a_file_that_becomes_shorter_while_it_is_sent_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treeline.client.CHUNK", 100_000)
    file = tmp_path / "rows.csv"
    file.write_bytes(b"x" * 300_000)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(201, headers={"Location": "/api/v1/uploads/resumable/U", "Upload-Offset": "0"})
        file.write_bytes(b"x" * 100_000)
        return httpx.Response(204, headers={"Upload-Offset": str(int(request.headers["Upload-Offset"]) + len(request.content))})

    with pytest.raises(ValueError, match="shorter"):
        client_of(answer).upload(file)
