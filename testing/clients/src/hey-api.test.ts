// The same with the SDK that @hey-api/openapi-ts generates, with its documented way to sign in.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { client } from '../generated/hey-api/client.gen.js';
import * as api from '../generated/hey-api/sdk.gen.js';
import { admin, baseUrl, fresh } from './server.js';

client.setConfig({ baseUrl, auth: admin });

test('a tree is created, worked on and read page by page', async () => {
  const type = fresh('ts-hey');
  await api.createJobType({ body: { name: type, max_failures: 1 }, throwOnError: true });
  const { data: job } = await api.createJob({
    body: { type, sealed: true, items: [{ payload: 1 }, { payload: 2 }, { payload: 3 }] },
    throwOnError: true,
  });
  const { data: patched } = await api.patchJob({ path: { id: job.id }, body: { priority: 5 }, throwOnError: true });
  assert.equal(patched.priority, 5);

  const { data: claimed } = await api.claimItems({
    body: { worker_id: 'hey-1', types: [type], max: 3 },
    throwOnError: true,
  });
  const [first, second, third] = claimed.assignments;
  assert.ok(first && second && third);
  await api.heartbeatAssignment({ path: { id: first.id }, body: { progress: { done: 1 } }, throwOnError: true });
  // A body that may be left out is left out.
  await api.succeedAssignment({ path: { id: first.id }, throwOnError: true });
  await api.failAssignment({
    path: { id: second.id },
    body: { error: { message: 'broken' }, retryable: false },
    throwOnError: true,
  });
  const { data: finished } = await api.finishAssignments({
    body: { endings: [{ assignment_id: third.id, result: 'done' }] },
    throwOnError: true,
  });
  assert.equal(finished.endings[0]?.status, 200);

  const states: string[] = [];
  let cursor: string | undefined;
  do {
    const { data: page } = await api.listItems({ query: { job: job.id, limit: 1, cursor }, throwOnError: true });
    states.push(...page.data.map((item) => item.state));
    cursor = page.next_cursor ?? undefined;
  } while (cursor);
  assert.deepEqual(states.sort(), ['dead', 'succeeded', 'succeeded']);

  const { data: failures } = await api.listJobFailures({ path: { id: job.id }, parseAs: 'text', throwOnError: true });
  assert.match(failures as unknown as string, /broken/);
});

test('a refusal is a problem with a code', async () => {
  const { error, response } = await api.getJob({ path: { id: '0190a5e0-0000-7000-8000-000000000000' } });
  assert.equal(response?.status, 404);
  assert.equal(error?.code, 'not_found');
});
