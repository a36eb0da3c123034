// Scenarios against a real server: TREELINE_SERVER_BIN, with its private PostgreSQL or an empty DATABASE_URL.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { ApiError, Client, verifyWebhook } from '../dist/index.js';
import { Failure, Release, Wait, Worker } from '../dist/worker.js';
import { collect, startServer } from './support.mjs';

let server;
let client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, token: server.token, chunk: 1_000 });
});

after(() => server.stop());

async function jobType() {
  const name = `t-${randomBytes(4).toString('hex')}`;
  const backoff = { min_seconds: 0, max_seconds: 0, jitter: false };
  await client.putJobType(name, { heartbeat_seconds: 3, max_failures: 2, backoff, steps: ['charged'] });
  return name;
}

/** Runs a worker until something has happened. */
async function work(type, handler, until, options = {}) {
  const worker = new Worker(client, { types: [type], concurrency: 4, drainSeconds: 5, graceSeconds: 1, warn: () => {}, ...options }, handler);
  const running = worker.run();
  try {
    await until;
  } finally {
    worker.stop();
  }
  return running;
}

test('a job is created once and its items are worked on', async () => {
  const type = await jobType();
  const key = randomUUID();
  const job = { type, items: Array.from({ length: 20 }, (_, n) => ({ payload: { a: n } })) };
  const { id } = await client.createJob(job, { key });
  assert.equal((await client.createJob(job, { key })).id, id);
  const added = await client.addItems(id, [{ payload: { a: 20 } }], { seal: true });
  assert.deepEqual([added.accepted, added.sealed], [1, true]);
  const summary = await work(type, (task) => task.payload.a + 1, client.wait(id));
  assert.deepEqual(summary, { succeeded: 21, failed: 0, released: 0, lost: 0 });
  const results = await collect(client.results(id));
  assert.deepEqual(results.map((line) => line.result).sort((a, b) => a - b), Array.from({ length: 21 }, (_, n) => n + 1));
  assert.equal((await collect(client.items({ job: id, limit: 7 }))).length, 21);
  assert.ok((await collect(client.jobs({ type }))).some((one) => one.id === id));
});

test('failures have their kinds and retries', async () => {
  const type = await jobType();
  const items = ['broken', 'flaky', 'bad', 'nul', 'given back'].map((payload) => ({ payload }));
  const { id } = await client.createJob({ type, sealed: true, items });
  const handle = async (task) => {
    if (task.payload === 'broken') throw new Failure('never', { kind: 'contract', detail: { missing: ['x'] }, retryable: false });
    if (task.payload === 'flaky' && task.attempt === 1) throw new RangeError('not now');
    if (task.payload === 'bad') return { not: 1n };
    if (task.payload === 'nul') return { text: '\0' };
    if (task.payload === 'given back' && task.attempt === 1) throw new Release();
    return { word: task.payload };
  };
  const summary = await work(type, handle, client.wait(id));
  assert.deepEqual(summary, { succeeded: 2, failed: 4, released: 1, lost: 0 });
  const failed = new Map((await collect(client.failures(id))).map((line) => [line.payload, line.error]));
  assert.deepEqual([...failed.keys()].sort(), ['bad', 'broken', 'nul']);
  assert.deepEqual([failed.get('broken').kind, failed.get('broken').detail], ['contract', { missing: ['x'] }]);
  assert.match(failed.get('bad').message, /result was refused/);
  assert.match(failed.get('nul').message, /result was refused: 422 invalid_body at \/endings\//);
});

test('a handler waits for an event and gets it', async () => {
  const type = await jobType();
  const { id } = await client.createJob({ type, sealed: true, items: ['paid', 'late', 'wrong'].map((payload) => ({ payload })) });
  const { id: paid } = (await collect(client.items({ job: id }))).find((item) => item.payload === 'paid');
  const handle = (task) => {
    if (task.event !== undefined) return { attempt: task.attempt, timed_out: task.event.timed_out, data: task.event.data };
    if (task.payload === 'paid') throw new Wait('payment', { timeoutSeconds: 3_600 });
    if (task.payload === 'late') throw new Wait('payment', { timeoutSeconds: 0.1 });
    throw new Wait('payment', { form: { fields: [{ name: '', type: 'string' }] } });
  };
  const pay = async () => {
    for (;;) {
      const item = await client.request('GET', `/items/${paid}`);
      if (item.state === 'waiting_for_event') break;
      await pause(50);
    }
    await client.sendEvent(paid, { name: 'payment', data: { receipt: 7 } });
    await client.wait(id);
  };
  const summary = await work(type, handle, pay());
  const results = new Map((await collect(client.results(id))).map((line) => [line.payload, line.result]));
  assert.deepEqual(results.get('paid'), { attempt: 2, timed_out: false, data: { receipt: 7 } });
  assert.deepEqual(results.get('late'), { attempt: 2, timed_out: true, data: null });
  const [refused] = await collect(client.failures(id));
  assert.match(refused.error.message, /The wait was refused/);
  assert.deepEqual(summary, { succeeded: 2, failed: 1, released: 2, lost: 0 });
});

test('steps and logs reach the next attempt and the item', async () => {
  const type = await jobType();
  const { id } = await client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
  const steps = [];
  const handle = async (task) => {
    steps.push(task.lastStep);
    await task.log(`attempt ${task.attempt}`, 'warn', { number: task.attempt });
    if (task.attempt === 1) {
      await task.step('charged', { receipt: 7 });
      throw new Failure('crash', { retryAfterSeconds: 0 });
    }
  };
  await work(type, handle, client.wait(id));
  assert.deepEqual(steps, [undefined, { name: 'charged', data: { receipt: 7 } }]);
  const [item] = await collect(client.items({ job: id }));
  const log = await client.request('GET', `/items/${item.id}/logs`, { params: { attempt: 1 } });
  assert.deepEqual(log.data.map((line) => [line.message, line.level, line.fields]), [['attempt 1', 'warn', { number: 1 }]]);
});

test('a canceled job stops its handler', async () => {
  const type = await jobType();
  const { id } = await client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
  let began;
  const started = new Promise((resolve) => (began = resolve));
  let stopped = false;
  const handle = (task) => {
    began();
    return new Promise((_, reject) => task.signal.addEventListener('abort', () => ((stopped = true), reject(task.signal.reason))));
  };
  const cancel = async () => {
    await started;
    await client.cancel(id);
    await client.wait(id);
  };
  await work(type, handle, cancel());
  assert.ok(stopped);
  assert.equal((await client.job(id)).tree.outcome, 'cancelled');
});

test('heartbeats keep long work and report its progress', async () => {
  const type = await jobType();
  const { id } = await client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const handle = (task) => {
    task.progress({ done: 3, total: 10, message: 'third' });
    return finished;
  };
  let shown;
  const watch = async () => {
    const [item] = await collect(client.items({ job: id }));
    // Longer than a lease, which is three intervals of three seconds.
    for (const ends = Date.now() + 10_000; Date.now() < ends || shown === undefined; await pause(200)) {
      shown = (await client.item(item.id)).progress ?? shown;
    }
    finish('kept');
    await client.wait(id);
  };
  await work(type, handle, watch());
  assert.deepEqual([shown.done, shown.total, shown.message], [3, 10, 'third']);
  const [item] = await collect(client.items({ job: id }));
  assert.deepEqual([item.state, item.attempts], ['succeeded', 1]);
});

test('a worker that leaves gives back what it holds', async () => {
  const type = await jobType();
  const { id } = await client.createJob({ type, sealed: true, items: [{ payload: 'slow' }, { payload: 'quick' }] });
  let began = 0;
  let both;
  const started = new Promise((resolve) => (both = resolve));
  const handle = (task) => {
    began += 1;
    if (began === 2) both();
    return task.payload === 'slow' ? pause(60_000, undefined, { signal: task.signal }) : 1;
  };
  const summary = await work(type, handle, started, { drainSeconds: 0.2, graceSeconds: 0.2 });
  assert.deepEqual(summary, { succeeded: 1, failed: 0, released: 1, lost: 0 });
  const states = (await collect(client.items({ job: id }))).map((item) => item.state);
  assert.deepEqual(states.sort(), ['available', 'succeeded']);
});

test('a file is uploaded in pieces, imported, and watched', async () => {
  const rows = Array.from({ length: 500 }, (_, n) => `${n},person ${n}\n`).join('');
  const file = new Blob([`id,name\n${rows}`]);
  const sent = [];
  const job = await client.importFile(file, 'people.csv', { type: 'import' }, (...one) => sent.push(one));
  assert.ok(sent.length > 3);
  assert.deepEqual(sent.at(-1), [file.size, file.size]);
  const states = await collect(client.watch(job.id));
  assert.equal(states.at(-1).tree.status, 'completed');
  assert.equal((await client.job(job.id)).counts.succeeded, 500);
});

test('a completion webhook verifies', async () => {
  const type = await jobType();
  let receive;
  const received = new Promise((resolve) => (receive = resolve));
  const receiver = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    response.writeHead(204).end();
    receive([body, request.headers]);
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => receiver.once('listening', resolve));
  try {
    const url = `http://127.0.0.1:${receiver.address().port}/done`;
    const job = await client.createJob({ type, sealed: true, on_completed: { url, secret: 'a-secret-of-the-test' } });
    const [body, headers] = await received;
    const event = await verifyWebhook(body, headers, 'a-secret-of-the-test');
    assert.deepEqual([event.type, event.data.job_id], ['tree.completed', job.id]);
  } finally {
    receiver.close();
  }
});

test('errors name the field and the code', async () => {
  await assert.rejects(client.createJob({ type: 'no-such-type', color: 1 }), (error) => error instanceof ApiError && error.status === 422 && error.code !== '');
  await assert.rejects(client.job('01900000-0000-7000-8000-000000000000'), { status: 404, code: 'not_found' });
  await assert.rejects(new Client({ url: client.url, token: 'wrong'.repeat(10) }).me(), { status: 401 });
});
