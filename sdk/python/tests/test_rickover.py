"""Workers written for Rickover, behind the adapter of examples/rickover."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from treeline import Client

from .conftest import Server

FOLDER = Path(__file__).parents[3] / "examples" / "rickover"
PASSWORD = secrets.token_hex(16)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def adapter(server: Server) -> Iterator[str]:
    """Address of the adapter; it and the worker run as programs of their own."""
    adapter, downstream = free_port(), free_port()
    environment = os.environ | {
        "TREELINE_URL": server.url,
        "TREELINE_TOKEN": server.token,
        "DOWNSTREAM_PASSWORD": PASSWORD,
        "DOWNSTREAM_URL": f"http://127.0.0.1:{downstream}",
        "DOWNSTREAM_PORT": str(downstream),
        "RICKOVER_URL": f"http://127.0.0.1:{adapter}",
        "ADAPTER_PORT": str(adapter),
    }
    programs = [subprocess.Popen([sys.executable, FOLDER / name], env=environment) for name in ("downstream.py", "adapter.py")]
    url = f"http://127.0.0.1:{adapter}"
    transport = httpx.HTTPTransport(retries=10)
    with httpx.Client(transport=transport) as client:
        for address in (url, environment["DOWNSTREAM_URL"]):
            client.post(f"{address}/v1/jobs", json={})
    yield url
    for program in programs:
        program.terminate()
        program.wait(10)


def test_a_worker_for_rickover_works_for_treeline(server: Server, client: Client, job_type: str, adapter: str) -> None:
    auth = {"user": "jobs", "password": PASSWORD}
    executor = {"kind": "push", "url": f"{adapter}/push", "timeout_seconds": 30, "auth": auth}
    backoff = {"min_seconds": 0, "max_seconds": 0, "jitter": False}
    client.put_job_type(job_type, max_failures=3, backoff=backoff, executor=executor)
    payloads = [{"n": 1}, {"busy": True}, {"fail": "no paper"}, {"fail": "never", "retryable": False}]
    job = client.create_job({"type": job_type, "sealed": True, "items": [{"payload": payload} for payload in payloads]})
    client.wait(job["id"], timeout=30)
    assert {str(line["payload"]): line["result"] for line in client.results(job["id"])} == {
        "{'n': 1}": {"n": 1},
        "{'busy': True}": {"busy": True},
    }
    failures = {line["error"]["message"]: line["attempts"] for line in client.failures(job["id"])}
    assert failures == {"no paper": 3, "never": 1}


def test_strangers_and_unknown_jobs_are_refused(adapter: str) -> None:
    job = f"{adapter}/v1/jobs/echo/job_0190a5e0-0000-7000-8000-000000000000"
    status = {"status": "succeeded", "data": {}}
    refused = httpx.post(job, json=status)
    assert refused.status_code == 401 and "basic" in refused.headers["www-authenticate"].lower()
    assert httpx.post(job, json=status, auth=("jobs", "wrong")).status_code == 401
    assert httpx.post(job, json=status, auth=("jobs", PASSWORD)).status_code == 404
    assert httpx.post(f"{adapter}/push", content="[", auth=("jobs", PASSWORD)).status_code == 400
