"""Payroll: a tree with a fixed shape, whose items are added while it runs.

Each calculated wage becomes a payment, and each payment two bookings. Payments of one bank run one at a time, in order.
Only the bookings are the tree's results. The engine moves work from one level to the next.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from treeline import Client, Failure, Task

from downstream import Downstream, order
from scenario import complete, expect, find, not_retryable, page, prepare, refused, run, say, until, working

CALCULATE, PAY, BOOK = "payroll.calculate", "payroll.pay", "payroll.book"
EMPLOYEES = 12
BANKS = ["north-bank", "south-bank", "west-bank"]
#: Employee whose time clock answers only at the second attempt.
SLOW = 5
#: Employee without a contract, whose wage cannot be calculated.
NO_CONTRACT = 9

TREE: dict[str, Any] = {
    "type": CALCULATE,
    "key": "wages",
    "name": "Payroll of March",
    "expected_count": EMPLOYEES,
    "children": [
        {
            "type": PAY,
            "key": "payments",
            "feed": {
                "payload": {
                    "employee": {"$from": "/payload/employee"},
                    "bank": {"$from": "/payload/bank"},
                    "net": {"$from": "/result/net"},
                },
                "serialize_key": {"$from": "/payload/bank"},
            },
            "children": [
                {
                    "type": BOOK,
                    "key": "bookings",
                    "final_stage": True,
                    "feed": {"each": "/result/entries", "payload": {"$from": "/element"}},
                }
            ],
        }
    ],
}


def timesheets(employees: range) -> list[dict[str, Any]]:
    items = []
    for employee in employees:
        hours = None if employee == NO_CONTRACT else 160
        payload = {"employee": employee, "bank": BANKS[employee % len(BANKS)], "hours": hours}
        items.append({"payload": payload, "dedupe_key": f"employee-{employee}"})
    return items


def calculate(task: Task) -> dict[str, int]:
    sheet = task.payload
    if sheet["employee"] == SLOW and task.attempt == 1:
        raise Failure("the time clock did not answer", kind="timeout", retry_after_seconds=0.1)
    if sheet["hours"] is None:
        raise not_retryable("there is no contract", "no_contract")
    return {"net": sheet["hours"] * 20}


def pay(task: Task, bank: str) -> dict[str, Any]:
    payment = task.payload
    receipt = order(bank, "payments", payment["bank"], task.item_id)
    entries = [{"ledger": "wages", "amount": payment["net"]}, {"ledger": payment["bank"], "amount": -payment["net"]}]
    return {"receipt": receipt, "employee": payment["employee"], "entries": entries}


def payroll(client: Client) -> str:
    prepare(client, *({"name": name, "heartbeat_seconds": 5} for name in (CALCULATE, PAY, BOOK)))
    with Downstream() as bank:

        def work(task: Task) -> Any:
            match task.type:
                case "payroll.calculate":
                    return calculate(task)
                case "payroll.pay":
                    return pay(task, bank.url)
                case _:
                    return task.payload

        made = client.create_job(TREE)
        root, payments = made["id"], find(made, "payments")["id"]
        say(f"made a tree of three levels, still empty: {page(client, root)}")
        half = EMPLOYEES // 2
        with working(client, [CALCULATE, PAY, BOOK], work, concurrency=8, worker_id="payroll-office"):
            client.add_items(root, timesheets(range(1, half + 1)))
            tree = until(client, root, lambda tree: find(tree, "payments")["counts"]["succeeded"] > 0)
            expect(not tree["sealed"] and not find(tree, "payments")["sealed"], "nobody has sealed anything yet")
            say("wages are being paid while half of the timesheets are still to come")
            refused(lambda: client.seal(payments), "job_is_fed", "sealing by hand what the engine feeds")
            twice = timesheets(range(half, EMPLOYEES + 1))
            refused(lambda: client.add_items(root, twice, seal=True), "duplicate", "handing in a timesheet twice")
            added = client.add_items(root, timesheets(range(half + 1, EMPLOYEES + 1)), seal=True)
            expect(added["accepted"] == EMPLOYEES - half and added["sealed"], "the second half is in", added)
            done = complete(client, root)
        say(done["message"])
        check(client, done, bank)
        return f"{EMPLOYEES - 1} of {EMPLOYEES} paid, {2 * (EMPLOYEES - 1)} bookings, at most 1 payment a bank at a time"


def check(client: Client, done: Any, bank: Downstream) -> None:
    paid = EMPLOYEES - 1
    payments, bookings = find(done, "payments"), find(done, "bookings")
    expect(done["tree"]["outcome"] == "partial", "one wage could not be calculated", done["tree"])
    expect((done["counts"]["succeeded"], done["counts"]["dead"]) == (paid, 1), "wages", done["counts"])
    expect(payments["counts"]["succeeded"] == paid and payments["sealed"], "payments", payments["counts"])
    expect(bookings["counts"]["succeeded"] == 2 * paid and bookings["sealed"], "bookings", bookings["counts"])

    items = list(client.items(job=payments["id"]))
    sources = {item["fed_by"] for item in items}
    expect(len(sources) == len(items) and None not in sources, "each payment comes of a wage of its own", sources)
    for name in BANKS:
        accepted = [item["id"] for item in items if item["serialize_key"] == name]
        executed = [effect.key for effect in bank.effects if effect.account == name]
        expect(accepted == executed, f"{name} executed its payments in order", executed)
    expect(max(bank.most_at_once[name] for name in BANKS) == 1, "one payment a bank at a time", bank.most_at_once)

    balance: dict[str, int] = defaultdict(int)
    results = list(client.results(done["id"]))
    for line in results:
        expect(line["job_id"] == bookings["id"], "the results are those of the final stage alone", line)
        balance[line["result"]["ledger"]] += line["result"]["amount"]
    expect(len(results) == 2 * paid and sum(balance.values()) == 0, "the books are balanced", dict(balance))


if __name__ == "__main__":
    run("payroll", payroll)
