#!/usr/bin/env python3
"""A whole worker in plain Python: TREELINE_TOKEN=... python3 plain.py TYPE. Put your own work into `handle`."""
import http.client, itertools, json, os, signal, sys, threading, time, urllib.error, urllib.request, uuid

URL = os.environ.get("TREELINE_URL", "http://127.0.0.1:3000") + "/api/v1"
HEADERS = {"Authorization": "Bearer " + os.environ["TREELINE_TOKEN"], "Content-Type": "application/json"}
held, cancelled, leaving = {}, set(), threading.Event()


def handle(payload):
    return {"letters": len(json.dumps(payload))}  # raise for a failure; ValueError: one that no retry heals


def call(path, body):
    """One call, again until it is answered: every call of a worker is safe to repeat, a claim because of its claim_id."""
    while True:
        try:
            request = urllib.request.Request(URL + path, json.dumps(body).encode(), HEADERS)
            return json.load(urllib.request.urlopen(request, timeout=60))
        except urllib.error.HTTPError as error:
            is_problem = error.headers.get_content_type() == "application/problem+json"  # else of a proxy
            if (is_problem or error.code == 413) and error.code not in (408, 429) and error.code < 500:
                if path == "/assignments/finish" and error.code in (413, 422):
                    return {"endings": [{"status": error.code}]}
                print(f"{path}: {error.code} {error.read().decode()}", file=sys.stderr)
                leaving.set()  # sys.exit ends only the thread, which may be that of the heartbeats
                sys.exit(1)
        except (OSError, http.client.HTTPException, ValueError): pass  # the connection broke, or something else has answered
        time.sleep(1)


def beat():
    for second in itertools.count(1):
        time.sleep(1)  # and not for an interval: the next items may have a shorter one
        beats = [{"assignment_id": id} for id, one in list(held.items()) if second % one["heartbeat_seconds"] < 1]
        answers = call("/assignments/heartbeat", {"heartbeats": beats})["heartbeats"] if beats else []
        cancelled.update(one["assignment_id"] for one in answers if one["status"] != 200 or one.get("cancel"))


def ending(assignment):
    if assignment["id"] in cancelled:
        return {"error": {"message": "cancelled"}}
    try:
        result = json.loads(json.dumps(handle(assignment["item"]["payload"]), allow_nan=False))
        return {"result": {} if result is None else result}
    except Exception as why:
        error = {"message": str(why) or repr(why), "kind": type(why).__name__}
        return {"error": error, "retryable": not isinstance(why, ValueError)}


for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, lambda *_: leaving.set())
threading.Thread(target=beat, daemon=True).start()
while not leaving.is_set():
    claim = {"worker_id": f"{os.uname().nodename}-{os.getpid()}", "types": sys.argv[1:], "max": 10, "wait_seconds": 20}
    held = {one["id"]: one for one in call("/assignments", {**claim, "claim_id": str(uuid.uuid4())})["assignments"]}
    for id, one in list(held.items()):
        for end in (ending(one), {"error": {"message": "The ending was refused."}, "retryable": False}):
            answer = call("/assignments/finish", {"endings": [{"assignment_id": id, **end}]})
            if answer["endings"][0]["status"] not in (413, 422): break
        held.pop(id)
