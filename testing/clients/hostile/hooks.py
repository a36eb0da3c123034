"""Hooks of schemathesis: ids that exist, lines of NDJSON, and the pieces of resumable uploads.

Loaded through SCHEMATHESIS_HOOKS. Half of the requests name things that exist, so that more than 404 is seen; the
things are made anew all the time, because the requests delete and cancel whatever they name.
"""

import json
import os
import random
import threading

import jsonschema_rs
import requests
import schemathesis

URL = os.environ["TREELINE_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['TREELINE_TOKEN']}"}
TYPES = ["hostile-a", "hostile-b"]
REFRESH = 40
WAITS = {str(seconds) for seconds in range(1, 31)}
dice = random.Random(7)


def call(method, path, body=None, headers=None, data=None):
    """One request; the JSON of its answer, or None."""
    try:
        answer = requests.request(
            method, f"{URL}/api/v1{path}", json=body, data=data, headers={**HEADERS, **(headers or {})}, timeout=20
        )
        return answer.json() if answer.ok and answer.content else None
    except (requests.RequestException, ValueError):
        return None


class Things:
    """Ids of things that exist, by the first part of their path."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ids = {}
        self.uses = 0

    def of(self, kind):
        with self.lock:
            if self.uses % REFRESH == 0:
                self.refresh()
            self.uses += 1
            return dice.choice(self.ids.get(kind) or [None])

    def refresh(self):
        for name in TYPES:
            call("PUT", f"/job-types/{name}", {"name": name, "steps": ["one", "two"], "max_failures": 2})
            call("POST", f"/job-types/{name}/resume")
        items = [{"payload": {"n": n}} for n in range(4)]
        jobs = [
            call("POST", "/jobs", {"type": TYPES[0], "items": items, "sealed": sealed, "max_failures": 1,
                                   "on_completed": {"url": "https://example.com/hook"}})
            for sealed in (True, False)
        ]
        jobs = [job["id"] for job in jobs if job]
        claimed = call("POST", "/assignments", {"worker_id": "hostile", "types": TYPES[:1], "max": 4})
        assignments = [one["id"] for one in (claimed or {}).get("assignments", [])]
        for one in assignments[:1]:
            call("POST", f"/assignments/{one}/failure", {"error": {"message": "on purpose"}, "retryable": False})
        done = call("POST", "/jobs", {"type": TYPES[1], "sealed": True, "on_completed": {"url": "https://example.com/"}})
        jobs += [done["id"]] if done else []
        found = (call("GET", f"/items?root={jobs[0]}&limit=10") or {}).get("data", []) if jobs else []
        upload = call("POST", "/uploads?filename=a.csv", data=b"id,name\n1,Ada\n", headers={"Content-Type": "text/csv"})
        partial = call("POST", "/uploads/resumable?filename=b.csv", headers={"Upload-Length": "20"})
        user = call("POST", "/users", {"name": f"p{dice.random()}", "email": f"p{dice.random()}@example.com"})
        service = f"s{dice.randrange(10**9)}"
        call("POST", "/services", {"name": service})
        token = call("POST", "/tokens", {"service": service, "name": "t", "scopes": ["jobs:read"]})
        share = call("POST", f"/jobs/{jobs[0]}/share", {"reason": "hostile"}) if jobs else None
        bulk = call("POST", "/bulk-operations", {"action": "retry", "target": "items", "dry_run": True,
                                                 "filter": {"state": "dead"}, "reason": "hostile"})
        schedule = call("POST", "/schedules", {"name": "hostile", "cron": "@yearly", "job": {"type": TYPES[0]}})
        deliveries = (call("GET", "/deliveries?limit=10") or {}).get("data", [])
        self.ids = {
            "jobs": jobs,
            "items": [one["id"] for one in found],
            "assignments": assignments,
            "uploads": [upload["id"]] if upload else [],
            "resumable": [partial["id"]] if partial else [],
            "users": [user["id"]] if user else [],
            "tokens": [token["token"]["id"]] if token else [],
            "shares": [share["id"]] if share else [],
            "bulk-operations": [bulk["id"]] if bulk else [],
            "deliveries": [one["id"] for one in deliveries],
            "job-types": TYPES,
            "services": [service],
            "schedules": [schedule["id"]] if schedule else [],
        }


things = Things()


def kind_of(path):
    """Whose id a path holds."""
    parts = path.removeprefix("/api/v1/").split("/")
    return parts[1] if parts[:2] == ["uploads", "resumable"] else parts[0]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Puts ids and types that exist in the place of invented ones."""
    if case.path_parameters and dice.random() < 0.6:
        for name in ("id", "name"):
            if name in case.path_parameters:
                real = things.of(kind_of(case.path))
                if real:
                    case.path_parameters[name] = real
    body = case.body
    if isinstance(body, dict) and dice.random() < 0.6:
        if isinstance(body.get("type"), str):
            body["type"] = dice.choice(TYPES)
        if isinstance(body.get("types"), list) and body["types"]:
            body["types"] = TYPES[:1]
        if isinstance(body.get("service"), str):
            body["service"] = things.of("services") or body["service"]
    # Nobody waits here for what may come.
    for holder in (case.query, body):
        if isinstance(holder, dict) and str(holder.get("wait_seconds")) in WAITS:
            holder["wait_seconds"] = 0
    # Left out on purpose stays left out.
    if case.method == "PATCH" and "Upload-Offset" in (case.headers or {}) and dice.random() < 0.6:
        case.headers["Upload-Offset"] = "0"


@schemathesis.hook
def filter_case(context, case):
    """Leaves out requests whose only fault is a header more than the document names: servers ignore those."""
    return not any(name.lower() == "x-schemathesis-unknown-property" for name in case.headers or {})


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    """Values as lines; what is no list is one line."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    rows = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@schemathesis.serializer("application/offset+octet-stream", "text/csv")
def pieces(context, value):
    """Bytes as they are."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@schemathesis.check
def lines_are_as_described(context, response, case):
    """Every line of a stream of lines fits the schema of a line."""
    kind = (response.headers.get("content-type") or [""])[0].split(";")[0]
    if kind != "application/x-ndjson" or response.status_code != 200:
        return
    document = case.operation.schema.raw_schema
    media = case.operation.definition.raw["responses"]["200"]["content"][kind]
    schema = {**media["schema"], "components": document["components"]}
    validator = jsonschema_rs.validator_for(schema)
    for line in response.content.splitlines():
        validator.validate(json.loads(line))
