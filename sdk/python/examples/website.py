"""Site: one complex job as parallel and sequential tasks.

Metadata, files and database are created in parallel, the site is set up after its database, and a last task runs after
all others. Tasks are retried without limit; a person repairs an item that no retry can fix, and the tree continues. An
abandoned site is canceled, deleted, and created again under the same name: no late task can affect the new one.
"""

from __future__ import annotations

import threading
from typing import Any

from treeline import ApiError, Client, Failure, Task
from treeline.types import Assignment

from scenario import Broken, complete, expect, find, new_word, not_retryable, only_item, page, prepare, refused, run, say, working

METADATA, FILES, DATABASE, BOOTSTRAP, FINISH = (
    f"site.{name}" for name in ("metadata", "files", "database", "bootstrap", "finish")
)
#: Tasks that run in parallel.
PARALLEL = [METADATA, FILES, DATABASE]
TASKS = [*PARALLEL, BOOTSTRAP, FINISH]
#: Number of failures before saving metadata succeeds.
STUMBLES = 2


class Platform:
    """The platform of the sites, which records the order of the tasks."""

    def __init__(self) -> None:
        # Opens when all three parallel tasks are running.
        self.together = threading.Barrier(len(PARALLEL))
        self.done: list[tuple[str, str]] = []

    def build(self, task: Task) -> dict[str, str]:
        site = task.payload
        if task.type in PARALLEL and task.attempt == 1:
            self.together.wait(60)
        if task.type == METADATA and task.attempt <= STUMBLES:
            raise Failure("the registry is busy", kind="busy")
        if task.type == DATABASE and "-" in site["database"]:
            raise not_retryable(f"{site['database']!r} cannot name a database", "bad_name")
        result = {"made": task.type}
        if task.type == FINISH:
            inputs = task.assignment.get("inputs") or {}
            if len(inputs) != len(TASKS) - 1:
                raise not_retryable(f"only {len(inputs)} parts are ready", "too_early")
            result = {"domain": site["domain"], "state": "running"}
        self.done.append((task.assignment["item"]["root_id"], task.type))
        return result

    def done_for(self, root: str) -> list[str]:
        return [what for of, what in self.done if of == root]


def tree(name: str, database: str) -> dict[str, Any]:
    """The tree of a site; its dedupe key makes the name unique."""
    site = {"domain": f"{name}.example", "database": database}

    def task(job_type: str, key: str, *after: str) -> dict[str, Any]:
        return {"type": job_type, "key": key, "items": [{"payload": site}], "sealed": True, "after": list(after)}

    finish = task(FINISH, "finish", "metadata", "files", "create-db", "bootstrap") | {"final_stage": True}
    first = [task(METADATA, "metadata"), task(FILES, "files"), task(DATABASE, "create-db")]
    children = [*first, task(BOOTSTRAP, "bootstrap", "create-db"), finish]
    domain = site["domain"]
    return {"type": "site", "name": domain, "dedupe_key": domain, "sealed": True, "children": children}


def site(client: Client) -> str:
    backoff = {"min_seconds": 0.05, "max_seconds": None, "factor": 2, "jitter": False}
    prepare(client, {"name": "site"}, *({"name": name, "max_failures": "unlimited", "backoff": backoff} for name in TASKS))
    platform, word = Platform(), new_word()
    with working(client, TASKS, platform.build, concurrency=4, worker_id="builders"):
        dies_and_is_repaired(client, platform, f"shop-{word}")
    given_up, late = is_given_up(client, f"blog-{word}")
    is_made_anew(client, platform, f"blog-{word}", given_up, late)
    return "two sites run: one was repaired on the way, one was given up and made anew"


def dies_and_is_repaired(client: Client, platform: Platform, name: str) -> None:
    root = client.create_job(tree(name, name))["id"]
    say(f"{name} is being built: {page(client, root)}")
    stuck = complete(client, root)
    expect(stuck["tree"]["outcome"] == "partial", "it cannot be finished", stuck["tree"])
    for key in ("bootstrap", "finish"):
        item = only_item(client, job=find(stuck, key)["id"])
        expect(item["state"] == "cancelled", f"{key} did not run", item)
    dead = only_item(client, job=find(stuck, "create-db")["id"])
    why = dead["last_error"]
    expect(dead["state"] == "dead" and why is not None and why.get("kind") == "bad_name", "create-db died", why)
    say("create-db died, and what waited for it was called off")

    mended = {"domain": f"{name}.example", "database": name.replace("-", "_")}
    client.retry(dead["id"], payload=mended, reason="a hyphen in the name of the database")
    done = complete(client, root)
    expect((done["tree"]["outcome"], done["completion"]) == ("succeeded", 2), "it runs", done["tree"])
    say("a person mended it, and the tree finished")
    order = platform.done_for(root)
    expect(sorted(order) == sorted(TASKS), "each task was done once", order)
    expect(order.index(DATABASE) < order.index(BOOTSTRAP) and order[-1] == FINISH, "in this order", order)
    metadata = only_item(client, job=find(done, "metadata")["id"])
    expect((metadata["failures"], metadata["attempts"]) == (STUMBLES, STUMBLES + 1), "tried until it worked", metadata)
    results = [line["result"]["state"] for line in client.results(root)]
    expect(results == ["running"], "the result of the tree is that of its last stage alone", results)


def is_given_up(client: Client, name: str) -> tuple[str, Assignment]:
    """A tree canceled while three tasks run waits for their workers, and refuses their results."""
    asked = tree(name, "blog")
    root = client.create_job(asked)["id"]
    taken = refused(lambda: client.create_job(asked), "duplicate", "the same site a second time")
    expect(taken.problem.get("id") == root, "the refusal names the one that is there", taken.problem)
    first, second, late = client.claim("somebody-slow", PARALLEL, maximum=10)
    cancelled = client.cancel(root, reason="the customer went away")
    expect(cancelled["tree"]["status"] == "cancelling", "three tasks still run", cancelled["message"])
    expect(client.claim("somebody-slow", TASKS) == [], "nothing of it is handed out anymore")
    refused(lambda: client.request("DELETE", f"/jobs/{root}"), "job_not_complete", "deleting what still runs")
    say(f"{name} is given up: {cancelled['message']}")

    [beat] = client.heartbeat([{"assignment_id": first["id"]}])
    expect(beat.get("cancel") is True, "a worker learns it from its next heartbeat", beat)
    client.release(first["id"])
    client.release(second["id"])
    waiting = client.job(root)
    expect(waiting["tree"]["status"] == "cancelling", "one is still waited for", waiting["message"])
    result = {"assignment_id": late["id"], "result": {"made": "too late"}}
    [ended] = client.finish([result])
    expect(ended.get("code") == "job_cancelled", "a result that comes late is refused", ended)
    done = complete(client, root)
    expect(done["tree"]["outcome"] == "cancelled", "nothing runs anymore", done["tree"])
    say("its last worker is gone, and what that brought was refused")
    return root, late


def is_made_anew(client: Client, platform: Platform, name: str, given_up: str, late: Assignment) -> None:
    client.request("DELETE", f"/jobs/{given_up}")
    refused(lambda: client.job(given_up), "job_removed", "reading what was deleted")
    root = client.create_job(tree(name, "blog"))["id"]
    with working(client, TASKS, platform.build, concurrency=4, worker_id="builders"):
        try:
            client.request("POST", f"/assignments/{late['id']}/result", body={"result": 1}, idempotent=True)
            raise Broken("a late task reached a deleted tree")
        except ApiError as error:
            expect(error.status in (404, 409, 410), "a late task is refused", error)
        done = complete(client, root)
    expect(done["tree"]["outcome"] == "succeeded", "the new one runs", done["tree"])
    expect(len(platform.done_for(root)) == len(TASKS) and not platform.done_for(given_up), "and was built alone")
    say(f"{name} was deleted and made anew: {page(client, root)}")


if __name__ == "__main__":
    run("site", site)
