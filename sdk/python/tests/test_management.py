"""Scenarios of programs that manage schedules, limits, and alert channels, against a real server."""

from __future__ import annotations

import asyncio
import http.server
import queue
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from treeline import ApiError, AsyncClient, Client, types, webhooks

from .conftest import Server


def nightly(job_type: str) -> types.NewSchedule:
    job: types.NewJob = {"type": job_type, "sealed": True, "items": [{"payload": 1}]}
    return {"name": f"nightly {job_type}", "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "job": job}


def test_a_schedule_is_created_once_and_changed(client: Client, job_type: str) -> None:
    key = secrets.token_hex(8)
    made = client.create_schedule(nightly(job_type), key=key)
    assert client.create_schedule(nightly(job_type), key=key)["id"] == made["id"]
    assert [one["id"] for one in client.schedules() if one["name"] == made["name"]] == [made["id"]]
    assert len(made["next_runs"]) == 5 and made.get("last_run") is None

    changed = client.patch_schedule(made["id"], cron="@hourly", overlap="queue", ends_at="2100-01-31T00:00:00Z")
    assert (changed["cron"], changed["overlap"], changed["time_zone"]) == ("@hourly", "queue", "Europe/Berlin")
    assert changed["ends_at"] is not None and changed["job"] == made["job"]
    assert client.patch_schedule(made["id"], ends_at=None)["ends_at"] is None
    with pytest.raises(ApiError, match="/cron") as raised:
        client.patch_schedule(made["id"], cron="every day")
    assert raised.value.status == 422
    assert client.schedule(made["id"])["cron"] == "@hourly"


def test_a_schedule_is_paused_run_by_hand_resumed_and_deleted(client: Client, job_type: str) -> None:
    schedule_id = client.create_schedule(nightly(job_type))["id"]
    paused = client.pause_schedule(schedule_id)
    assert (paused["paused"], len(paused["next_runs"])) == (True, 5)
    ran = client.run_schedule(schedule_id, reason="the numbers of March")
    assert client.resume_schedule(schedule_id)["paused"] is False

    [run] = client.schedule_runs(schedule_id, limit=1)
    assert run == ran.get("last_run") and (run["state"], run["by_hand"]) == ("started", True)
    assert run["job_id"] is not None and client.job(run["job_id"])["type"] == job_type
    client.delete_schedule(schedule_id)
    with pytest.raises(ApiError) as raised:
        client.schedule(schedule_id)
    assert raised.value.code == "not_found"
    assert client.job(run["job_id"])["id"] == run["job_id"], "its trees stay"


def test_limits_of_a_type_are_changed_and_hold(client: Client, job_type: str) -> None:
    limit: types.RateLimit = {"count": 1, "per_seconds": 3_600, "key": "/customer"}
    changed = client.patch_job_type(job_type, rate_limit=limit, concurrency_by={"key": "/customer", "limit": 1})
    assert (changed["rate_limit"], changed["max_failures"]) == (limit, 2), "the other fields stay"
    assert client.job_type(job_type)["concurrency_by"] == {"key": "/customer", "limit": 1}
    assert job_type in [one["name"] for one in client.job_types(sort="name", limit=2)]

    items = [{"payload": {"customer": customer}} for customer in ("a", "a", "b")]
    job = client.create_job({"type": job_type, "sealed": True, "items": items})
    claimed = client.claim("one", [job_type], maximum=3, wait_seconds=5)
    assert sorted(one["item"]["payload"]["customer"] for one in claimed) == ["a", "b"]
    [waiting] = client.items(job=job["id"], state="available")
    assert waiting["waiting_for"] is not None and waiting["waiting_for"]["reason"] in ("rate_limit", "concurrency_key")

    assert client.patch_job_type(job_type, rate_limit=None, concurrency_by=None)["rate_limit"] is None
    [last] = client.claim("one", [job_type], maximum=3, wait_seconds=20)
    assert last["item"]["id"] == waiting["id"]


@pytest.fixture
def receiver() -> Iterator[tuple[str, queue.Queue[tuple[bytes, dict[str, str]]]]]:
    """Address of a receiver of webhooks, and what it has received."""
    received: queue.Queue[tuple[bytes, dict[str, str]]] = queue.Queue()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put((self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/alerts", received
    server.shutdown()


def test_an_alert_channel_receives_what_its_rule_says(
    server: Server, job_type: str, receiver: tuple[str, queue.Queue[tuple[bytes, dict[str, str]]]]
) -> None:
    url, received = receiver
    secret = "a-secret-of-the-channel"

    async def message() -> Any:
        body, headers = await asyncio.to_thread(received.get, timeout=20)
        return webhooks.verify(body, headers, secret)

    async def scenario(client: AsyncClient) -> None:
        new: types.NewAlertChannel = {"name": job_type, "kind": "webhook", "url": url, "secret": secret, "paused": True}
        key = secrets.token_hex(8)
        channel = await client.create_alert_channel(new, key=key)
        assert (await client.create_alert_channel(new, key=key))["id"] == channel["id"]
        changed = await client.patch_alert_channel(channel["id"], kinds=["worker"], types=[job_type], paused=False)
        assert (changed["types"], changed["min_count"]) == ([job_type], 1)
        assert await client.alert_channel(channel["id"]) == changed
        assert channel["id"] in [one["id"] async for one in client.alert_channels(limit=1)]
        [delivery] = await client.test_alert_channel(channel["id"])
        assert delivery["alert"] is not None and delivery["alert"]["event"] == "test"
        assert (await message())["type"] == "alert.test"

        await client.create_job({"type": job_type, "sealed": True, "items": [{"payload": 1}]})
        [assignment] = await client.claim("one", [job_type])
        await client.request("POST", f"/assignments/{assignment['id']}/alert", body={"message": "no ink"})
        raised = await message()
        assert (raised["type"], raised["data"]["message"]) == ("alert.raised", "one: no ink")
        assert raised["data"]["id"] in [alert["id"] async for alert in client.alerts(kind="worker")]

        await client.delete_alert_channel(channel["id"])
        with pytest.raises(ApiError):
            await client.alert_channel(channel["id"])

    async def run() -> None:
        async with AsyncClient(server.url, server.token) as client:
            await asyncio.wait_for(scenario(client), 60)

    asyncio.run(run())
