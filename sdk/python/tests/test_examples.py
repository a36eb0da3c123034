"""The five examples, and the worker of README.md as written, against a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treeline import Client
from treeline.types import Job

from .conftest import Server

PACKAGE = Path(__file__).parent.parent


def environment(server: Server) -> dict[str, str]:
    return os.environ | {"TREELINE_URL": server.url, "TREELINE_TOKEN": server.token, "PYTHONPATH": str(PACKAGE / "src")}


@pytest.mark.parametrize(
    ("example", "ends_with"),
    [
        ("payroll", "11 of 12 paid, 22 bookings, at most 1 payment a bank at a time"),
        ("refund", "4 workers died over a refund, and each of its 3 steps happened once"),
        ("website", "two sites run: one was repaired on the way, one was given up and made anew"),
        ("bird_import", "9,995 rows went through, 5 came home, were mended, and went through"),
        ("invoices", "one card charged at most once"),
    ],
)
def test_an_example_keeps_its_promises(server: Server, example: str, ends_with: str) -> None:
    command = [sys.executable, str(PACKAGE / "examples" / f"{example}.py")]
    run = subprocess.run(command, env=environment(server), capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip().endswith(ends_with), run.stdout


def test_an_example_says_which_promise_was_not_kept(server: Server, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("from scenario import expect, run\nrun('broken', lambda _: expect(False, 'it holds', 7) or '')\n")
    path = os.pathsep.join([str(PACKAGE / "src"), str(PACKAGE / "examples")])
    command = [sys.executable, str(program)]
    run = subprocess.run(command, env=environment(server) | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (1, "broken: it holds: 7\n")


def wait_for(client: Client, job_id: str, succeeded: int) -> Job:
    for state in client.watch(job_id):
        if state["counts"]["succeeded"] >= succeeded:
            return state
    raise AssertionError(f"the job ended before {succeeded} items had succeeded")


def test_the_worker_of_the_readme_loses_and_doubles_nothing(server: Server, client: Client, tmp_path: Path) -> None:
    block = re.search(r"program of its own:\n+```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert block is not None
    source = block[1]
    assert len(source.strip().splitlines()) <= 20, "it is meant to be read at a glance"
    program = tmp_path / "worker.py"
    program.write_text(source)

    @contextmanager
    def start() -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen([sys.executable, str(program)], env=environment(server))
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    client.put_job_type("letters", heartbeat_seconds=1, max_failures=10, steps=["sent"])
    items = [{"payload": {"to": f"person {n}"}} for n in range(40)] + [{"payload": {}}]
    job = client.create_job({"type": "letters", "items": items, "sealed": True})["id"]
    with start() as killed:
        wait_for(client, job, 6)
        killed.kill()
    with start() as drained:
        wait_for(client, job, 20)
        drained.send_signal(signal.SIGTERM)
        assert drained.wait(60) == 0
    held = [item["assignment"] for item in client.items(job=job, state="running")]
    holders = {holder["worker_id"] for holder in held if holder is not None}
    assert not any(name.endswith(f"-{drained.pid}") for name in holders), "a worker that leaves finishes what it holds"
    with start() as last:
        abandoned = client.create_job({"type": "letters", "items": items * 20, "sealed": True})["id"]
        wait_for(client, abandoned, 1)
        client.cancel(abandoned)
        assert client.wait(abandoned, timeout=60)["tree"]["outcome"] == "cancelled"
        done = client.wait(job, timeout=60)
        last.send_signal(signal.SIGTERM)
        assert last.wait(60) == 0

    assert (done["counts"]["succeeded"], done["counts"]["dead"]) == (40, 1)
    results = [line["result"]["sent_to"] for line in client.results(job)]
    assert sorted(results) == sorted(f"person {n}" for n in range(40))
    lost = 0
    for item in client.items(job=job, state="succeeded"):
        attempts = client.request("GET", f"/items/{item['id']}/attempts")["data"]
        ends = [attempt["ended_as"] for attempt in attempts]
        # A worker that leaves gives back at once what its last claim brought.
        assert ends[-1] == "succeeded" and set(ends[:-1]) <= {"lease_lost", "released"}, ends
        assert item["progress"] is None or item["progress"]["message"].startswith("page ")
        lost += ends.count("lease_lost")
    assert lost >= 1, "the killed program held something"
    [failed] = client.failures(job)
    assert failed["error"] is not None and failed["error"]["kind"] == "bad_payload"
