// The whole program of a service and of its worker, with the types that openapi-typescript makes by default.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import createClient from 'openapi-fetch';

import type { components, paths } from '../generated/openapi.js';
import { admin, baseUrl, fresh } from './server.js';

type Job = components['schemas']['Job'];

const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${admin}` } });

test('a tree is created, worked on and read page by page', async () => {
  const type = fresh('ts-fetch');
  const made = await client.POST('/api/v1/job-types', { body: { name: type, max_failures: 1, steps: ['looked'] } });
  assert.equal(made.response.status, 201);

  const created = await client.POST('/api/v1/jobs', {
    params: { header: { 'Idempotency-Key': fresh('key') } },
    body: {
      type,
      sealed: true,
      items: [{ payload: { n: 1 } }, { payload: { n: 2 } }, { payload: { n: 3 }, priority: -5 }],
      metadata: { team: 'hr' },
    },
  });
  assert.equal(created.response.status, 201);
  const job: Job = created.data!;

  // One field of a PATCH, and nothing else is asked for or changed.
  const patched = await client.PATCH('/api/v1/jobs/{id}', {
    params: { path: { id: job.id } },
    body: { name: 'March' },
  });
  assert.equal(patched.data?.name, 'March');
  assert.deepEqual(patched.data?.metadata, { team: 'hr' });

  const claimed = await client.POST('/api/v1/assignments', {
    body: { worker_id: 'ts-1', types: [type], max: 3, wait_seconds: 5 },
  });
  const [first, second, third] = claimed.data!.assignments;
  assert.ok(first && second && third);
  const beat = await client.POST('/api/v1/assignments/{id}/heartbeat', {
    params: { path: { id: first.id } },
    body: { progress: { done: 1, total: 2, message: 'half' } },
  });
  assert.equal(beat.data?.cancel, false);
  const step = await client.POST('/api/v1/assignments/{id}/step', {
    params: { path: { id: first.id } },
    body: { name: 'looked', data: { at: 1 } },
  });
  assert.equal(step.data?.name, 'looked');
  const ended = await client.POST('/api/v1/assignments/{id}/result', {
    params: { path: { id: first.id } },
    body: { result: { ok: true } },
  });
  assert.equal(ended.data?.item_state, 'succeeded');
  const finished = await client.POST('/api/v1/assignments/finish', {
    body: {
      endings: [
        { assignment_id: second.id, result: [1, 2] },
        { assignment_id: third.id, error: { message: 'no such user', kind: 'unknown' }, retryable: false },
      ],
    },
  });
  assert.deepEqual(finished.data?.endings.map((one) => one.status), [200, 200]);

  const read = await client.GET('/api/v1/jobs/{id}', { params: { path: { id: job.id } } });
  assert.equal(read.data?.status, 'completed');
  assert.equal(read.data?.outcome, 'partial');

  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.GET('/api/v1/items', { params: { query: { job: job.id, limit: 2, cursor } } });
    seen.push(...page.data!.data.map((item) => item.state));
    cursor = page.data!.next_cursor ?? undefined;
  } while (cursor);
  assert.deepEqual(seen.sort(), ['dead', 'succeeded', 'succeeded']);

  const results = await client.GET('/api/v1/jobs/{id}/results', {
    params: { path: { id: job.id }, query: { format: 'ndjson' } },
    parseAs: 'text',
  });
  assert.equal((results.data as unknown as string).trim().split('\n').length, 2);
  const failures = await client.GET('/api/v1/jobs/{id}/failures', {
    params: { path: { id: job.id } },
    parseAs: 'text',
  });
  assert.match(failures.data as unknown as string, /no such user/);
});

test('a refusal is a problem with a code', async () => {
  const missing = await client.GET('/api/v1/jobs/{id}', {
    params: { path: { id: '0190a5e0-0000-7000-8000-000000000000' } },
  });
  assert.equal(missing.response.status, 404);
  assert.equal(missing.error?.code, 'not_found');
});
