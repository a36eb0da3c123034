"""Wake-ups from a broker that is made up, and from a real RabbitMQ if AMQP_URL names one."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from treeline import AsyncClient, Client, Task, Worker
from treeline.worker import LOOK_EVERY

from .broker import FakeBroker
from .conftest import Server
from .fake import FakeServer

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


@asynccontextmanager
async def woken(server: FakeServer, broker: FakeBroker, handler: Any) -> AsyncIterator[None]:
    """Runs a worker that a broker wakes, until the test is over."""
    async with broker.run(), server.client() as client:
        worker = Worker(client, ["t"], handler, drain_seconds=0, grace_seconds=0, amqp_url=broker.url)
        running = asyncio.create_task(worker.run_async())
        try:
            await broker.until(lambda: len(broker.consumers) == 1)
            yield
        finally:
            worker.stop()
            await running


def test_a_worker_whose_consumer_the_broker_cancels_attaches_again() -> None:
    async def scenario() -> None:
        server, broker = FakeServer(0), FakeBroker()
        async with woken(server, broker, lambda _: 1):
            broker.cancel()
            await broker.until(lambda: len(broker.consumers) == 1)
            server.left = 1
            broker.deliver("item-0")
            await broker.until(lambda: broker.acknowledged == [1])
        assert broker.connections == 2

    asyncio.run(scenario())


def test_a_worker_at_capacity_gives_its_messages_back_and_attaches_again_when_it_has_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        server, broker = FakeServer(1), FakeBroker()
        began, finish = asyncio.Event(), asyncio.Event()

        async def handle(_: Task) -> None:
            began.set()
            await finish.wait()

        async with woken(server, broker, handle):
            await began.wait()
            broker.deliver("item-7")
            broker.deliver("item-8")
            await broker.until(lambda: not broker.consumers)
            assert not broker.acknowledged and broker.connections == 1
            finish.set()
            await broker.until(lambda: len(broker.consumers) == 1)
            broker.deliver("item-9")
            await broker.until(lambda: broker.acknowledged == [3])

    asyncio.run(scenario())
    assert not caplog.records


def test_the_package_works_without_the_broker_s_library() -> None:
    source = Path(__file__).parent.parent / "src" / "treeline"
    users = [path.name for path in source.glob("*.py") if "aio_pika" in path.read_text()]
    assert users == ["_rabbitmq.py"]
