"""pgqueuer with asyncpg and uvloop: `enqueue` of lists, and queue managers in several processes that drain.

Reads what to do next from standard input, one word a line: `add`, `drain`, and the end of it. The tables are the durable
ones. The clock of a drain stops when the table of waiting jobs is empty, not when the last handler ran: endings are written
in batches. BATCH and PROCESSES override the setting that was fastest in a search.
"""

import asyncio
import json
import multiprocessing
import os
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.models import Job

URL = os.environ["DATABASE_URL"]
ITEMS = int(os.environ["ITEMS"])
PAYLOAD = os.environ["PAYLOAD"].encode()
BATCH = int(os.environ.get("BATCH", 500))
PROCESSES = int(os.environ.get("PROCESSES", os.cpu_count() or 2))
ADDED_AT_ONCE = 5_000


def work(ready, go):
    """Run in a process of its own: one queue manager that drains once it may."""

    async def drain():
        connection = await asyncpg.connect(URL)
        queue = PgQueuer.from_asyncpg_connection(connection)

        @queue.entrypoint("pay")
        async def pay(_: Job) -> None:
            pass

        ready.release()
        await asyncio.get_running_loop().run_in_executor(None, go.wait)
        await queue.qm.run(mode=QueueExecutionMode.drain, batch_size=BATCH)
        await connection.close()

    uvloop.run(drain())


async def add(pool):
    left = ITEMS

    async def caller():
        nonlocal left
        async with pool.acquire() as connection:
            queries = Queries.from_asyncpg_connection(connection)
            while left > 0:
                part = min(left, ADDED_AT_ONCE)
                left -= part
                await queries.enqueue(["pay"] * part, [PAYLOAD] * part, [0] * part)

    await asyncio.gather(caller(), caller())


async def drain(pool, go):
    go.set()
    async with pool.acquire() as connection:
        while await connection.fetchval("select exists (select from pgqueuer)"):
            await asyncio.sleep(0.005)


async def lead(ready, go):
    pool = await asyncpg.create_pool(URL, min_size=3, max_size=3)
    loop = asyncio.get_running_loop()
    for _ in range(PROCESSES):
        await loop.run_in_executor(None, ready.acquire)
    from importlib.metadata import version

    settings = f"enqueue of {ADDED_AT_ONCE}, {PROCESSES} processes with batches of {BATCH}, asyncpg, uvloop, durable tables"
    print(json.dumps({"ready": True, "version": version("pgqueuer"), "settings": settings}), flush=True)
    while word := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        began = time.perf_counter()
        if word == "add":
            await add(pool)
        if word == "drain":
            await drain(pool, go)
        print(json.dumps({"done": word, "seconds": time.perf_counter() - began}), flush=True)
    await pool.close()


async def install():
    connection = await asyncpg.connect(URL)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(install())
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    workers = [context.Process(target=work, args=(ready, go)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    uvloop.run(lead(ready, go))
    for worker in workers:
        worker.join()
