"""Wake-ups from a real RabbitMQ, if AMQP_URL names one."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import pytest

from treeline import AsyncClient, Client, Task, Worker
from treeline.worker import LOOK_EVERY

from .conftest import Server

AMQP_URL = os.environ.get("AMQP_URL")


@pytest.mark.skipif(AMQP_URL is None, reason="AMQP_URL names no broker")
def test_a_message_wakes_a_worker_long_before_it_looks_by_itself(server: Server, client: Client) -> None:
    name = f"woken-{secrets.token_hex(4)}"
    client.put_job_type(name)

    async def run() -> float:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        async def handle(_: Task) -> None:
            done.set()

        async with AsyncClient(server.url, server.token) as api:
            worker = Worker(api, [name], handle, amqp_url=AMQP_URL)
            running = asyncio.create_task(worker.run_async())
            await asyncio.sleep(2)
            began = loop.time()
            await api.create_job({"type": name, "sealed": True, "items": [{"payload": 1}]})
            await asyncio.wait_for(done.wait(), LOOK_EVERY)
            took = loop.time() - began
            worker.stop()
            await running
        return took

    assert asyncio.run(run()) < 5


def test_the_package_works_without_the_broker_s_library() -> None:
    source = Path(__file__).parent.parent / "src" / "treeline"
    users = [path.name for path in source.glob("*.py") if "aio_pika" in path.read_text()]
    assert users == ["_rabbitmq.py"]
