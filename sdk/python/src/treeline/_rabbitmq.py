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

#: Seconds within which RabbitMQ must answer while the worker connects.
CONNECT_TIMEOUT = 5.0
#: Seconds that a message waits for a worker at capacity; then all go back to the broker, which gives them to others.
FULL_TIMEOUT = 1.0


async def listen(url: str, types: Sequence[str], wakes: Wakes) -> None:
    """Puts the ids of items that messages name into `wakes`, for ever.

    A message is acknowledged when the worker takes it: it is a wake-up only, and a lost one costs time, never work.
    """
    failures = 0
    while True:
        is_full = False
        try:
            async with await aio_pika.connect(url, timeout=CONNECT_TIMEOUT) as connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=wakes.most)
                #: True if the worker is at capacity, false if messages no longer arrive.
                ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

                def end(is_full: bool) -> None:
                    if not ended.done():
                        ended.set_result(is_full)

                async def receive(message: AbstractIncomingMessage) -> None:
                    try:
                        item_id = json.loads(message.body)["item_id"]
                    except (ValueError, KeyError, TypeError):
                        log.warning("not a wake-up: %r", message.body[:80])
                    else:
                        if not await wakes.put(str(item_id), FULL_TIMEOUT):
                            return end(True)  # it goes back with the connection
                    await message.ack()

                def lost(*_: object) -> None:
                    end(False)

                connection.close_callbacks.add(lost)
                channel.close_callbacks.add(lost)
                # Called when the broker cancels a consumer, because its queue was deleted or has moved.
                (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(lost)
                for name in types:
                    queue = await channel.get_queue(f"treeline.items.{name}")
                    await queue.consume(receive)
                failures = 0
                wakes.is_attached = True
                is_full = await ended
        except (aio_pika.exceptions.AMQPError, RuntimeError, OSError) as error:
            log.warning("RabbitMQ is not available: %r", error)
        if is_full:
            await wakes.wanted()
            continue
        wakes.is_attached = False
        failures += 1
        await asyncio.sleep(backoff(failures))
