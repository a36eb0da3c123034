"""Refund: executed exactly once, however often it is requested and however many workers die.

The request carries an Idempotency-Key, so a repeated request returns the same tree. The work has three steps, and a
recorded step is never repeated. No engine can close the gap between an action and its record; in that gap, downstream
services recognize a repeated request by its key. A worker is a program of its own here, and it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from treeline import AsyncClient, Client, Task, Worker

from downstream import Downstream, order
from scenario import complete, expect, new_word, only_item, page, prepare, refused, run, say

REFUND = "refund"
#: The steps, named like their downstream requests.
STEPS = ["refunds", "bookings", "letters"]
#: Number of concurrent requests for the refund.
PARALLEL_REQUESTS = 8
#: Moments at which a worker dies: after every step, and once in the gap before a record.
DEATHS = ["refunds recorded", "bookings done", "bookings recorded", "letters recorded"]


def make_refund(task: Task, downstream: str, death: str) -> dict[str, str]:
    def die_at(moment: str) -> None:
        if moment == death:
            os._exit(9)  # no ending, no release, no heartbeat

    receipts: dict[str, str] = {}
    reached = 0
    if task.last_step is not None:
        receipts = dict(task.last_step["data"])
        reached = STEPS.index(task.last_step["name"]) + 1
    for step in STEPS[reached:]:
        receipts[step] = order(downstream, step, task.payload["account"], f"{task.item_id}:{step}")
        die_at(f"{step} done")
        task.step(step, receipts)
        die_at(f"{step} recorded")
    return receipts


def clerk(name: str, downstream: str, death: str) -> subprocess.Popen[bytes]:
    """Starts a worker as a program of its own."""
    return subprocess.Popen([sys.executable, __file__, "clerk", name, downstream, death])


def request(word: str, account: str) -> dict[str, Any]:
    order = f"order-{word}"
    items = [{"payload": {"order": order, "account": account}}]
    return {"type": REFUND, "name": f"Refund of {order}", "items": items, "sealed": True, "initiated_by": "customer-17"}


def refund(client: Client) -> str:
    prepare(
        client,
        # A dead worker is detected after three missed heartbeats.
        {"name": REFUND, "steps": STEPS, "heartbeat_seconds": 0.4, "max_failures": 20, "require_idempotency_key": True},
    )
    word = new_word()
    key, asked = f"refund-{word}-a", request(f"{word}-a", "ada")
    with Downstream() as downstream:
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            made = list(pool.map(lambda _: client.create_job(asked, key=key), range(PARALLEL_REQUESTS)))
        root = made[0]["id"]
        expect(all(job["id"] == root for job in made), "one key makes one tree", [job["id"] for job in made])
        other = {**asked, "name": "another"}
        refused(lambda: client.create_job(other, key=key), "idempotency_key_reused", "another request under the same key")
        say(f"{PARALLEL_REQUESTS} asked at once, one refund was made: {page(client, root)}")

        for number, death in enumerate(DEATHS, 1):
            code = clerk(f"clerk-{number}", downstream.url, death).wait(120)
            expect(code == 9, f"clerk {number} dies over the refund", code)
            say(f"a worker died with {death}")
            expect(client.create_job(asked, key=key)["id"] == root, "it is still the same refund")
        with clerk("the-last-clerk", downstream.url, "") as last:
            done = complete(client, root)
            expect(done["tree"]["outcome"] == "succeeded", "the refund is made", done["tree"])
            expect(client.create_job(asked, key=key)["id"] == root, "asked again, it is still the same refund")
            effects = downstream.effects[:]
            expect([effect.what for effect in effects] == STEPS, "each step once, in order", effects)
            expect(downstream.requests > len(effects), "the one in the gap was asked for twice", downstream.requests)
            check_attempts(client, root, {effect.what: effect.receipt for effect in effects})
            fails_and_is_requested_again(client, downstream, word)
            last.terminate()
            expect(last.wait(60) == 0, "the last clerk leaves", last.returncode)
    return f"{len(DEATHS)} workers died over a refund, and each of its {len(STEPS)} steps happened once"


def check_attempts(client: Client, root: str, receipts: dict[str, str]) -> None:
    item = only_item(client, root=root)
    expect(client.item(item["id"])["result"] == receipts, "the result has the receipts", receipts)
    attempts = client.request("GET", f"/items/{item['id']}/attempts")["data"]
    ends = [attempt["ended_as"] for attempt in attempts]
    expect(ends.count("lease_lost") >= len(DEATHS) and ends[-1] == "succeeded", "every death was noticed", ends)
    say(f"{len(attempts)} attempts, {len(receipts)} effects")


def fails_and_is_requested_again(client: Client, downstream: Downstream, word: str) -> None:
    """A refund that fails for good is a dead letter. The same request then creates a new tree in its place."""
    downstream.closed.add("bob")
    key, asked = f"refund-{word}-b", request(f"{word}-b", "bob")
    failed = client.create_job(asked, key=key)["id"]
    expect(complete(client, failed)["tree"]["outcome"] == "failed", "nothing can be refunded to bob")
    dead = only_item(client, root=failed, state="dead")
    why = dead["last_error"]
    expect(why is not None and why.get("kind") == "downstream_refused", "a dead letter says why", why)
    say(f"a refund became a dead letter: {why['message'] if why else ''}")

    downstream.closed.discard("bob")
    instead = client.create_job(asked, key=key)
    expect(instead["id"] != failed and instead["replay_of"] == failed, "a failed refund is made anew", instead)
    refused(lambda: client.retry(dead["id"]), "superseded", "retrying what has a successor")
    done = complete(client, instead["id"])
    expect(done["tree"]["outcome"] == "succeeded", "bob has his money", done["tree"])
    for_bob = [effect for effect in downstream.effects if effect.account == "bob"]
    expect(len(for_bob) == len(STEPS), "bob was refunded once", for_bob)
    old = client.job(failed)
    expect(old["superseded_by"] == instead["id"], "the failed refund names the one that took its place", old)
    say("asked for again with the same key, it was made anew and done")


if __name__ == "__main__":
    if sys.argv[1:2] == ["clerk"]:
        name, downstream, death = sys.argv[2:]
        Worker(AsyncClient(), [REFUND], lambda task: make_refund(task, downstream, death), worker_id=name).run()
    else:
        run("refund", refund)
