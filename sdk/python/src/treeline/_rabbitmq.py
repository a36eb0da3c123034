"""Wake-ups from RabbitMQ: names of items that can be claimed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from ._retry import backoff
from ._wakes import Wakes

log = logging.getLogger("treeline.worker")


async def listen(url: str, types: Sequence[str], wakes: Wakes) -> None:
    """Puts the ids of items that messages name into `wakes`, for ever.

    A message is acknowledged when its item is in the queue: it is a wake-up only, and a lost one costs time, never work.
    """
    failures = 0
    while True:
        try:
            connection = await aio_pika.connect(url)
            async with connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=wakes.most)
                closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

                async def receive(message: AbstractIncomingMessage) -> None:
                    try:
                        item_id = json.loads(message.body)["item_id"]
                    except (ValueError, KeyError, TypeError):
                        log.warning("not a wake-up: %r", message.body[:80])
                    else:
                        await wakes.put(str(item_id))
                    await message.ack()

                def lost(*_: object) -> None:
                    if not closed.done():
                        closed.set_result(None)

                connection.close_callbacks.add(lost)
                channel.close_callbacks.add(lost)
                for name in types:
                    queue = await channel.get_queue(f"treeline.items.{name}")
                    await queue.consume(receive)
                failures = 0
                wakes.is_attached = True
                await closed
        except (aio_pika.exceptions.AMQPError, aio_pika.exceptions.ChannelInvalidStateError, OSError) as error:
            log.warning("RabbitMQ is not available: %r", error)
        finally:
            wakes.is_attached = False
        failures += 1
        await asyncio.sleep(backoff(failures))
