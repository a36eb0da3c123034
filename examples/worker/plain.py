#!/usr/bin/env python3
"""A whole worker in plain Python: TREELINE_TOKEN=... python3 plain.py TYPE. Put your own work into `handle`."""
import http.client, json, os, signal, sys, threading, time, urllib.error, urllib.request, uuid

URL = os.environ.get("TREELINE_URL", "http://127.0.0.1:3000") + "/api/v1"
HEADERS = {"Authorization": "Bearer " + os.environ["TREELINE_TOKEN"], "Content-Type": "application/json"}
held, cancelled, leaving = {}, set(), threading.Event()


def handle(payload):
    return {"letters": len(json.dumps(payload))}  # raise for a failure; ValueError: one that no retry heals


def call(path, body):
    """One call, again until it is answered: every call of a worker is safe to repeat."""
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
    while True:
        try:
            return json.load(urllib.request.urlopen(request, timeout=60))
        except urllib.error.HTTPError as error:
            is_problem = error.headers.get_content_type() == "application/problem+json"  # else of a proxy
            if (is_problem or error.code == 413) and error.code not in (408, 429) and error.code < 500:
                print(f"{path}: {error.code} {error.read().decode()}", file=sys.stderr)
                leaving.set()  # sys.exit ends only the thread, which may be that of the heartbeats
                sys.exit(1)
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the connection broke, perhaps in the middle of the answer, or something else has answered
        time.sleep(1)


def beat():
    while True:
        time.sleep(min((one["heartbeat_seconds"] for one in list(held.values())), default=1))
        beats = [{"assignment_id": one} for one in list(held)]
        for answer in call("/assignments/heartbeat", {"heartbeats": beats})["heartbeats"] if beats else []:
            if answer["status"] != 200 or answer.get("cancel"):
                cancelled.add(answer["assignment_id"])


def ending(assignment):
    if assignment["id"] in cancelled:
        return {"assignment_id": assignment["id"], "error": {"message": "cancelled"}}
    try:
        return {"assignment_id": assignment["id"], "result": handle(assignment["item"]["payload"])}
    except Exception as why:
        error = {"message": str(why) or repr(why), "kind": type(why).__name__}
        return {"assignment_id": assignment["id"], "error": error, "retryable": not isinstance(why, ValueError)}


for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: leaving.set())
threading.Thread(target=beat, daemon=True).start()
while not leaving.is_set():
    # The same claim_id again brings the same items: a lost answer strands nothing.
    claim = {"worker_id": f"{os.uname().nodename}-{os.getpid()}", "types": sys.argv[1:], "max": 10}
    taken = call("/assignments", {**claim, "wait_seconds": 20, "claim_id": str(uuid.uuid4())})["assignments"]
    held = {one["id"]: one for one in taken}
    for one in taken:
        call("/assignments/finish", {"endings": [ending(one)]})
        held.pop(one["id"])
