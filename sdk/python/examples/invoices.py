"""Invoices: one item each, under ids of the caller; with a cap, attempts, times, at most once, and a replay.

Every invoice is put twice and is there once. A type limits how many run at once. One invoice must not go out before its
time, one expires, one dies in an outage and is replayed. A card is charged at most once.
"""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timedelta
from typing import Any

from treeline import Client, Failure, Task
from treeline.types import Job

from downstream import Downstream, order
from scenario import complete, expect, not_retryable, only_item, prepare, refused, run, say, working

INVOICE, CHARGE = "invoice", "charge"
INVOICES = 20
#: Maximum number of invoices at once.
CAP = 5
ATTEMPTS = 3
#: Downstream account of the invoices.
ACCOUNT = "invoices"


class Office:
    """The office that sends invoices."""

    def __init__(self, client: Client, downstream: Downstream) -> None:
        self.client, self.downstream = client, downstream
        # Shipments with problems: away for two attempts, away until the outage ends, and returned.
        self.troubles = {"shp_3": "busy", "shp_7": "outage", "shp_11": "returned"}
        self.entered = 0
        self.lock = threading.Lock()
        # The first five meet here.
        self.full = threading.Barrier(CAP)
        #: Number of items assigned while five were running; must stay 0.
        self.beyond = 0

    def invoice(self, task: Task) -> str:
        with self.lock:
            self.entered += 1
            is_early = self.entered <= CAP
        if is_early:
            self.ask_for_more()
        trouble = self.troubles.get(task.payload["shipment"])
        if trouble == "outage" or (trouble == "busy" and task.attempt <= 2):
            raise Failure("downstream is away", kind="downstream_away")
        if trouble == "returned":
            raise not_retryable("it came back", "returned")
        return order(self.downstream.url, "invoices", ACCOUNT, task.item_id)

    def ask_for_more(self) -> None:
        """The first five wait for each other. While all of them are under way, one asks for more."""
        if self.full.wait(60) == 0:
            self.beyond += len(self.client.claim("somebody-else", [INVOICE], maximum=10))
        self.full.wait(60)


def put(client: Client, shipment: str, **fields: Any) -> Job:
    """Creates an invoice under an id from here, and repeats the request as after a lost response."""
    new = {"type": INVOICE, "name": shipment, "items": [{"payload": {"shipment": shipment}}], "sealed": True, **fields}
    new["id"] = str(uuid.uuid4())
    made, again = client.create_job(new), client.create_job(new)
    expect(made["id"] == again["id"] == new["id"], f"{shipment} is there once", again)
    other = {**new, "name": "another"}
    refused(lambda: client.create_job(other), "id_in_use", "another invoice under its id")
    return again


def after(now: str, seconds: float) -> str:
    return (datetime.fromisoformat(now) + timedelta(seconds=seconds)).isoformat()


def invoices(client: Client) -> str:
    backoff = {"min_seconds": 0.05, "max_seconds": 1, "factor": 2, "jitter": False}
    prepare(
        client,
        {"name": INVOICE, "concurrency": CAP, "max_failures": ATTEMPTS, "backoff": backoff, "heartbeat_seconds": 5},
        # A lost worker is detected after three missed heartbeats.
        {"name": CHARGE, "delivery": "at_most_once", "heartbeat_seconds": 0.3},
    )
    is_charged_at_most_once(client)
    with Downstream() as downstream:
        office = Office(client, downstream)
        # Times come from the server, because the clock of this machine may differ.
        first = put(client, "shp_1")
        now = first["created_at"]
        later = put(client, "shp_later", run_after=after(now, 4))["id"]
        expect(only_item(client, root=later)["state"] == "scheduled", "it waits for its time")
        expired = goes_out_too_late(client, after(now, 2))
        trees = {"shp_1": first["id"]} | {f"shp_{n}": put(client, f"shp_{n}")["id"] for n in range(2, INVOICES + 1)}
        say(f"{INVOICES} invoices are put, every one twice, under ids of our own")
        with working(client, [INVOICE], office.invoice, concurrency=3 * CAP, worker_id="invoice-office"):
            invoiced = 0
            for shipment, root in trees.items():
                wanted = "failed" if office.troubles.get(shipment) in ("outage", "returned") else "succeeded"
                outcome = complete(client, root)["tree"]["outcome"]
                expect(outcome == wanted, f"{shipment} {wanted}", outcome)
                invoiced += wanted == "succeeded"
            expect(office.beyond == 0, "nothing was handed out beyond the cap", office.beyond)
            most = downstream.most_at_once[ACCOUNT]
            expect(1 <= most <= CAP, "the cap holds downstream", most)
            say(f"{invoiced} are out; while {CAP} were under way, nobody was given another")
            for shipment, failures, attempts in (("shp_3", 2, 3), ("shp_7", ATTEMPTS, ATTEMPTS), ("shp_11", 1, 1)):
                item = only_item(client, root=trees[shipment])
                expect((item["failures"], item["attempts"]) == (failures, attempts), f"attempts of {shipment}", item)
            not_before_its_time(client, later)
            del office.troubles["shp_7"]
            is_replayed(client, trees["shp_7"], expired)
    return f"{invoiced + 2} shipments invoiced, at most {most} at once; one card charged at most once"


def goes_out_too_late(client: Client, expires_at: str) -> str:
    """An invoice that expires, because no worker runs yet."""
    root = put(client, "shp_late", expires_at=expires_at)["id"]
    complete(client, root)
    item = only_item(client, root=root)
    expect((item["state"], item["attempts"]) == ("expired", 0), "nobody was given it, and it expired", item)
    say("an invoice that nobody sent before its time was up has expired")
    return root


def not_before_its_time(client: Client, root: str) -> None:
    done = complete(client, root)
    expect(done["tree"]["outcome"] == "succeeded", "it went out", done["tree"])
    item = only_item(client, root=root)
    [attempt] = client.request("GET", f"/items/{item['id']}/attempts")["data"]
    began, run_after = datetime.fromisoformat(attempt["started_at"]), datetime.fromisoformat(item["run_after"] or "")
    expect(began >= run_after, "it did not go out before its time", (began, run_after))
    say("the invoice that had to wait went out when its time had come")


def is_charged_at_most_once(client: Client) -> None:
    """A worker claims a card and disappears."""
    root = client.create_job({"type": CHARGE, "items": [{"payload": {"shipment": "shp_1"}}], "sealed": True})["id"]
    [card] = client.claim("somebody-else", [CHARGE])
    done = complete(client, root)
    expect(done["tree"]["outcome"] == "failed", "nobody can say if it was charged", done["tree"])
    item = only_item(client, root=root)
    why = item["last_error"]
    expect(item["state"] == "dead" and why is not None and why.get("kind") == "outcome_unknown", "it says so", item)
    expect(client.claim("somebody-else", [CHARGE]) == [], "it is not handed out again")
    [late] = client.finish([{"assignment_id": card["id"], "result": {}}])
    expect(late.get("code") == "assignment_closed", "a stale result is refused", late)
    say("a card was taken by a worker that went away: charged once or not at all, and never again")


def is_replayed(client: Client, dead: str, expired: str) -> None:
    """After the outage, the dead tree is replayed and succeeds; a replay of the expired one expires again."""

    def replay(root: str, reason: str) -> Job:
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        made = client.request("POST", f"/jobs/{root}/replay", body={"reason": reason}, headers=headers)
        expect(made["replay_of"] == root, "a new tree", made)
        return complete(client, made["id"])

    again = only_item(client, root=replay(expired, "by mistake")["id"])
    expect((again["state"], again["attempts"]) == ("expired", 0), "it has still expired", again)
    done = replay(dead, "the outage is over")
    expect(done["tree"]["outcome"] == "succeeded", "this time it went out", done["tree"])
    expect(client.job(dead)["tree"]["outcome"] == "failed", "what happened then stays as it was")
    say("the outage is over: the dead invoice was replayed and went out, the expired one stays expired")


if __name__ == "__main__":
    run("invoices", invoices)
