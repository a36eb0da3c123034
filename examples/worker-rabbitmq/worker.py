#!/usr/bin/env python3
"""A worker that listens to RabbitMQ: python3 worker.py TYPE. Needs pika (pip install pika).

A message is only a wake-up. It is acknowledged at once; the item is then asked for over HTTP, and only who is
given it works on it. What was never said, or was lost, is found by asking for the type every few seconds.
"""
import http.client, json, os, sys, threading, time, urllib.error, urllib.request, uuid

import pika

URL = os.environ.get("TREELINE_URL", "http://127.0.0.1:3000")
TOKEN = os.environ["TREELINE_TOKEN"]
AMQP = pika.URLParameters(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672/%2f"))
TYPE = sys.argv[1]
WORKER = f"python-{os.getpid()}"
LOOK = 5  # seconds between two looks of its own


class Refused(SystemExit):
    """The request is refused every time. The program ends, unless that is only for what `handle` returned or raised."""


def call(path, body):
    """Sends a request until it is answered; None where what it names is over (409) or unknown (404)."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + "/api/v1" + path, json.dumps(body).encode(), headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # Only a problem document is an answer of Treeline: a 404 may be of a proxy that is being reloaded.
            is_answer = error.code == 413 or error.headers.get_content_type() == "application/problem+json"
            if is_answer and error.code in (404, 409):
                return None
            if is_answer and error.code < 500 and error.code not in (408, 429):
                why = f"{path}: {error.read().decode()}"
                raise Refused(why) if error.code in (413, 422) else SystemExit(why)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: an answer that is not JSON
            print("Treeline does not answer:", error, file=sys.stderr)
        time.sleep(1)


def handle(payload):
    """The work: replace this. What it returns is the result; an exception is a failure."""
    return {"echo": payload}


def keep_alive(assignment, over):
    while not over.wait(assignment["heartbeat_seconds"]):
        call(f"/assignments/{assignment['id']}/heartbeat", {})


def claim(**what):
    """Asks for work and does it; returns how many items it was."""
    # The same claim_id again gives the same items again: a lost answer costs nothing.
    body = {"worker_id": WORKER, "max": 1, "claim_id": str(uuid.uuid4()), **what}
    assignments = (call("/assignments", body) or {}).get("assignments", [])
    for assignment in assignments:
        over = threading.Event()
        threading.Thread(target=keep_alive, args=(assignment, over), daemon=True).start()
        try:
            result = handle(assignment["item"]["payload"])
            verb, ending = "result", {"result": {} if result is None else result}
            json.dumps(ending, allow_nan=False)  # raises what JSON cannot say
        except Exception as error:
            verb, ending = "failure", {"error": {"message": str(error) or repr(error), "kind": type(error).__name__}}
        over.set()
        try:
            call(f"/assignments/{assignment['id']}/{verb}", ending)
        except Refused as why:
            print(why, file=sys.stderr)
            ending = {"error": {"message": "The ending was refused."}, "retryable": False}
            call(f"/assignments/{assignment['id']}/failure", ending)
    return len(assignments)


while True:
    try:
        channel = pika.BlockingConnection(AMQP).channel()
        channel.basic_qos(prefetch_count=1)
        for method, _, body in channel.consume(f"treeline.items.{TYPE}", inactivity_timeout=LOOK):
            if method is None:
                while claim(types=[TYPE]):
                    pass
                continue
            channel.basic_ack(method.delivery_tag)
            try:
                claim(item_ids=[json.loads(body)["item_id"]])
            except (ValueError, KeyError, TypeError):
                print("not a wake-up:", body[:80], file=sys.stderr)
    except pika.exceptions.AMQPError as error:
        print("RabbitMQ is away:", repr(error), file=sys.stderr)
        while claim(types=[TYPE]):
            pass
        time.sleep(2)
