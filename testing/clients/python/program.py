"""The whole program of a service and of its worker, with the client that openapi-python-client generates.

TREELINE_URL and TREELINE_TOKEN name the server and a token that may do everything; the folder with the generated
package `treeline_api` is the argument.
"""

import json
import os
import sys
import uuid

sys.path.insert(0, sys.argv[1])

from treeline_api import AuthenticatedClient  # noqa: E402
from treeline_api.api.assignments import (  # noqa: E402
    claim_items,
    fail_assignment,
    finish_assignments,
    heartbeat_assignment,
    succeed_assignment,
)
from treeline_api.api.items import list_items  # noqa: E402
from treeline_api.api.job_types import create_job_type  # noqa: E402
from treeline_api.api.jobs import create_job, get_job, list_job_failures, patch_job  # noqa: E402
from treeline_api.models import (  # noqa: E402
    AssignmentEnding,
    ClaimRequest,
    FailureBody,
    FinishRequest,
    HeartbeatRequest,
    ItemProgress,
    Job,
    JobPatch,
    JobTypeSpec,
    NewItem,
    NewJob,
    Problem,
    ResultBody,
    WorkError,
)

client = AuthenticatedClient(base_url=os.environ["TREELINE_URL"], token=os.environ["TREELINE_TOKEN"])
job_type = f"python-{uuid.uuid4()}"

create_job_type.sync(client=client, body=JobTypeSpec(name=job_type, max_failures=1))
made = create_job.sync(
    client=client,
    body=NewJob(type_=job_type, sealed=True, items=[NewItem(payload={"n": n}) for n in (1, 2, 3)]),
    idempotency_key=str(uuid.uuid4()),
)
assert isinstance(made, Job), made
assert made.counts.available == 3, made.counts

patched = patch_job.sync(client=client, id=made.id, body=JobPatch(name="March"))
assert isinstance(patched, Job) and patched.name == "March", patched
assert patched.expires_at == made.expires_at and patched.priority == made.priority

claimed = claim_items.sync(client=client, body=ClaimRequest(worker_id="python-1", types=[job_type], max_=3))
first, second, third = claimed.assignments
beat = heartbeat_assignment.sync(
    client=client, id=str(first.id), body=HeartbeatRequest(progress=ItemProgress(done=1, total=2, message="half"))
)
assert beat.cancel is False
ended = succeed_assignment.sync(client=client, id=str(first.id), body=ResultBody(result={"ok": True}))
assert ended.item_state == "succeeded", ended
ended = fail_assignment.sync(
    client=client, id=str(second.id), body=FailureBody(error=WorkError(message="broken"), retryable=False)
)
assert ended.item_state == "dead", ended
finished = finish_assignments.sync(
    client=client, body=FinishRequest(endings=[AssignmentEnding(assignment_id=str(third.id), result=7)])
)
assert [one.status for one in finished.endings] == [200], finished

read = get_job.sync(client=client, id=made.id)
assert read.status == "completed" and read.outcome == "partial", read

states, cursor = [], {}
while True:
    page = list_items.sync(client=client, job=made.id, limit=2, **cursor)
    states += [str(item.state) for item in page.data]
    if not page.next_cursor:
        break
    cursor = {"cursor": page.next_cursor}
assert sorted(states) == ["dead", "succeeded", "succeeded"], states

failures = list_job_failures.sync_detailed(client=client, id=made.id)
assert [json.loads(line)["state"] for line in failures.content.splitlines()] == ["dead"], failures.content

missing = get_job.sync(client=client, id=uuid.UUID(int=1))
assert isinstance(missing, Problem) and missing.code == "not_found", missing
print("the generated Python client passes")
