"""A broker made up by a test: as much of AMQP as a worker speaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pamqp import body, commands, frame, header


class FakeBroker:
    """Has every queue, and records what its consumers do."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        #: Tags of the deliveries that were acknowledged.
        self.acknowledged: list[int] = []
        #: Tags of the consumers that are attached, and where their messages go.
        self.consumers: dict[str, asyncio.StreamWriter] = {}
        self._changed = asyncio.Condition()
        self._delivered = 0

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.close()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until a condition on what is recorded holds."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(holds)

    def deliver(self, item_id: str) -> None:
        """Sends a message about an item to the only consumer."""
        [(tag, writer)] = self.consumers.items()
        self._delivered += 1
        content = json.dumps({"item_id": item_id}).encode()
        deliver = commands.Basic.Deliver(tag, self._delivered, False, "treeline.items", "t")
        send(writer, 1, deliver, header.ContentHeader(body_size=len(content)), body.ContentBody(content))

    def cancel(self) -> None:
        """Ends the only consumer, as a broker does whose queue is deleted."""
        [(tag, writer)] = self.consumers.items()
        self.consumers.clear()
        send(writer, 1, commands.Basic.Cancel(tag, nowait=True))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readexactly(8)  # the protocol header
        send(writer, 0, commands.Connection.Start(mechanisms="PLAIN", server_properties={"capabilities": {"publisher_confirms": True}}))
        try:
            while True:
                start = await reader.readexactly(7)
                text = start + await reader.readexactly(int.from_bytes(start[3:]) + 1)
                _, channel, received = frame.unmarshal(text)
                for answer in self._answers(received, writer):
                    send(writer, channel, answer)
                await self._tell()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.consumers = {tag: each for tag, each in self.consumers.items() if each is not writer}
            writer.close()
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _answers(self, received: Any, writer: asyncio.StreamWriter) -> list[Any]:
        if isinstance(received, commands.Connection.StartOk):
            return [commands.Connection.Tune(channel_max=16, frame_max=131_072, heartbeat=0)]
        if isinstance(received, commands.Basic.Ack):
            self.acknowledged.append(received.delivery_tag)
        if isinstance(received, commands.Basic.Consume):
            self.consumers[received.consumer_tag] = writer
            return [commands.Basic.ConsumeOk(received.consumer_tag)]
        if isinstance(received, commands.Queue.Declare):
            return [commands.Queue.DeclareOk(received.queue, 0, 0)]
        usual = {
            commands.Connection.Open: commands.Connection.OpenOk,
            commands.Connection.Close: commands.Connection.CloseOk,
            commands.Channel.Open: commands.Channel.OpenOk,
            commands.Channel.Close: commands.Channel.CloseOk,
            commands.Basic.Qos: commands.Basic.QosOk,
            commands.Confirm.Select: commands.Confirm.SelectOk,
        }
        return [answer() for request, answer in usual.items() if isinstance(received, request)]


def send(writer: asyncio.StreamWriter, channel: int, *frames: Any) -> None:
    for each in frames:
        writer.write(frame.marshal(each, channel))
