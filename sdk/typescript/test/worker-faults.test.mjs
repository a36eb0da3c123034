// Workers behind a proxy that makes the server fail, or refuse what they send.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from '../dist/index.js';
import { Wait, Worker } from '../dist/worker.js';
import { collect, startProxy, startServer } from './support.mjs';

let server;
let client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, token: server.token });
});

after(() => server.stop());

async function oneItem() {
  const type = `t-${randomBytes(4).toString('hex')}`;
  const backoff = { min_seconds: 0, max_seconds: 0, jitter: false };
  await client.putJobType(type, { heartbeat_seconds: 3, max_failures: 2, backoff });
  return client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
}

/** Runs a worker behind a proxy until a job is complete. Its calls are not sent again by the client. */
async function work(intercept, job, handler) {
  const proxy = await startProxy(server.url, intercept);
  const behind = new Client({ url: proxy.url, token: server.token, retryTimeout: 0 });
  const worker = new Worker(behind, { types: [job.type], drainSeconds: 5, warn: () => {} }, handler);
  const running = worker.run();
  try {
    await client.wait(job.id, { signal: AbortSignal.timeout(60_000) });
  } finally {
    worker.stop();
    await running;
    proxy.stop();
  }
  return worker.summary;
}

test('a result outlives a server that is away', async () => {
  const job = await oneItem();
  const faults = [503, 429, 408, null];
  const intercept = (path, body) => (path.endsWith('/assignments/finish') && faults.length > 0 ? faults.shift() : body);
  const summary = await work(intercept, job, (task) => ({ sum: task.payload }));
  const [item] = await collect(client.items({ job: job.id }));
  assert.deepEqual([item.state, item.attempts], ['succeeded', 1]);
  assert.deepEqual((await collect(client.results(job.id))).map((line) => line.result), [{ sum: 1 }]);
  assert.deepEqual(summary, { succeeded: 1, failed: 0, released: 0, lost: 0 });
  assert.equal(faults.length, 0);
});

test('a result outlives a proxy that answers instead of the server', async () => {
  const job = await oneItem();
  const faults = [404, 403, 401, null];
  const intercept = (path, body) => (path.endsWith('/assignments/finish') && faults.length > 0 ? faults.shift() : body);
  assert.deepEqual(await work(intercept, job, (task) => ({ sum: task.payload })), { succeeded: 1, failed: 0, released: 0, lost: 0 });
  assert.deepEqual((await collect(client.results(job.id))).map((line) => line.result), [{ sum: 1 }]);
  assert.equal(faults.length, 0);
});

test('a claim whose answer is lost costs no attempt', async () => {
  const job = await oneItem();
  const claims = [];
  const intercept = (path, body) => {
    if (!path.endsWith('/assignments')) return body;
    claims.push(body.claim_id);
    return claims.length === 1 ? { lost: body } : claims.length === 2 ? 404 : body;
  };
  assert.deepEqual(await work(intercept, job, () => 1), { succeeded: 1, failed: 0, released: 0, lost: 0 });
  const [item] = await collect(client.items({ job: job.id }));
  assert.deepEqual([item.state, item.attempts, item.failures], ['succeeded', 1, 0]);
  assert.equal(new Set(claims.slice(0, 3)).size, 1);
});

test('a wait outlives a server that is away', async () => {
  const job = await oneItem();
  const faults = [503, 408, null];
  const intercept = (path, body) => (path.endsWith('/wait') && faults.length > 0 ? faults.shift() : body);
  const handle = (task) => {
    if (task.event === undefined) throw new Wait('payment', { timeoutSeconds: 0.1 });
  };
  const summary = await work(intercept, job, handle);
  const [item] = await collect(client.items({ job: job.id }));
  assert.deepEqual([item.state, item.failures], ['succeeded', 0]);
  assert.deepEqual(summary, { succeeded: 1, failed: 0, released: 1, lost: 0 });
  assert.equal(faults.length, 0);
});

test('a program ends although the server stays away', async () => {
  const job = await oneItem();
  let refuse;
  const refused = new Promise((resolve) => (refuse = resolve));
  const intercept = (path, body) => (path.endsWith('/assignments/finish') ? (refuse(), 503) : body);
  const proxy = await startProxy(server.url, intercept);
  const text = `
    import { Client } from '${new URL('../dist/index.js', import.meta.url)}';
    import { Worker } from '${new URL('../dist/worker.js', import.meta.url)}';
    const options = { types: ['${job.type}'], drainSeconds: 0, graceSeconds: 0 };
    await new Worker(new Client({ url: '${proxy.url}', token: '${server.token}' }), options, () => 1).run({ signals: true });
  `;
  const program = spawn(process.execPath, ['--input-type=module', '--eval', text], { stdio: 'ignore' });
  const ended = once(program, 'exit');
  await refused;
  program.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
  proxy.stop();
});

test('progress that is refused each time costs neither the lease nor more requests', async () => {
  const job = await oneItem();
  const hadProgress = [];
  const intercept = (path, body) => {
    if (path.endsWith('/assignments/heartbeat')) {
      const [beat] = body.heartbeats;
      hadProgress.push('progress' in beat);
      if ('progress' in beat) beat.progress.done = -1; // what the worker itself would not send
    }
    return body;
  };
  const handle = async (task) => {
    // Each heartbeat comes a second after the one before, and a lease is three intervals of three seconds.
    for (let done = 1; hadProgress.filter((had) => !had).length < 11; done += 1) {
      task.signal.throwIfAborted();
      task.progress({ done });
      await pause(100);
    }
    return 'done';
  };
  assert.deepEqual(await work(intercept, job, handle), { succeeded: 1, failed: 0, released: 0, lost: 0 });
  const [item] = await collect(client.items({ job: job.id }));
  assert.deepEqual([item.state, item.attempts], ['succeeded', 1]);
  const repeated = hadProgress.some((had, place) => had && hadProgress[place + 1]);
  assert.ok(hadProgress.includes(true) && !repeated, 'a refused heartbeat is followed by one without progress');
});

test('invalid progress fails at the line of the handler', async () => {
  const job = await oneItem();
  const handle = (task) => {
    for (const wrong of [{ done: '1' }, { total: 1n }, { message: 1 }]) {
      assert.throws(() => task.progress(wrong), { name: 'TypeError', message: /expected/ });
    }
    for (const out of [{ done: 0.5 }, { done: NaN }, { done: -1 }, { total: 2 ** 53 }, { message: 'x'.repeat(1_001) }, { message: '\0' }, { message: '\ud800' }]) {
      assert.throws(() => task.progress(out), { name: 'RangeError', message: /expected/ });
    }
    task.progress({ done: 0, total: Number.MAX_SAFE_INTEGER, message: '😀'.repeat(1_000) });
  };
  assert.deepEqual(await work((_, body) => body, job, handle), { succeeded: 1, failed: 0, released: 0, lost: 0 });
});
