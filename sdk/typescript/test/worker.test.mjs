// Workers of a server that is made up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Failure, Release, Worker } from '../dist/worker.js';
import { FakeServer, problem } from './fake.mjs';

const SHORT = { drainSeconds: 0.05, graceSeconds: 0.05 };
const NONE = { succeeded: 0, failed: 0, released: 0, lost: 0 };
const endingsOf = (server) => server.sent('/finish').flatMap((body) => body.endings);

test('a failure whose detail cannot be sent is sent without it', async () => {
  const circular = [];
  circular.push(circular);
  for (const detail of [{ amount: 1n }, circular, '\ud800']) {
    const answer = (path, body) => (path.endsWith('/finish') && 'detail' in body.endings[0].error ? problem(422) : undefined);
    const server = new FakeServer({ answer });
    const accepted = () => endingsOf(server).find((ending) => !('detail' in ending.error));
    const handle = () => {
      throw new Failure('card declined', { kind: 'declined', detail, retryable: false, retryAfterSeconds: 5 });
    };
    const summary = await server.run(handle, accepted);
    assert.deepEqual(summary, { succeeded: 0, failed: 1, released: 0, lost: 0 });
    const ending = accepted();
    assert.match(ending.error.message, /^card declined \(the detail was refused: /);
    assert.deepEqual([ending.error.kind, ending.retryable, ending.retry_after_seconds], ['declined', false, 5]);
  }
});

test('a failure is cut to what the server takes', async () => {
  const given = [
    () => new Failure('', { kind: '', retryAfterSeconds: -1 }),
    () => new Failure(`\0\ud800${'😀'.repeat(70_000)}`, { kind: 'k'.repeat(300), retryAfterSeconds: NaN }),
    () => new Failure('late', { retryAfterSeconds: 1e12 }),
    () => new Release(-1),
  ];
  const server = new FakeServer({ items: 4 });
  const handle = (task) => {
    throw given[task.payload]();
  };
  const summary = await server.run(handle, () => endingsOf(server).length === 3 && server.sent('/release').length === 1, { concurrency: 4 });
  assert.deepEqual(summary, { succeeded: 0, failed: 3, released: 1, lost: 0 });
  const [empty, long, late] = endingsOf(server).sort((a, b) => a.assignment_id.localeCompare(b.assignment_id));
  assert.deepEqual([empty.error, empty.retry_after_seconds], [{ message: 'The handler failed without a message.' }, 0]);
  assert.deepEqual(long.error, { message: `\ufffd\ufffd${'😀'.repeat(65_534)}`, kind: 'k'.repeat(255) });
  assert.ok(!('retry_after_seconds' in long));
  assert.equal(late.retry_after_seconds, 315_360_000);
  assert.deepEqual(server.sent('/release'), [{ retry_after_seconds: 0 }]);
});

test('an item stays with the worker until its handler has ended', async () => {
  for (const cancel of [true, false]) {
    let began = false;
    let finish;
    const finished = new Promise((resolve) => (finish = resolve));
    const answer = (path) => {
      if (!path.endsWith('/heartbeat')) return undefined;
      if (server.sent('/heartbeat').length > 6) finish('written'); // long after the grace
      return { heartbeats: [{ assignment_id: 'assignment-0', status: 200, cancel }] };
    };
    const server = new FakeServer({ heartbeatSeconds: 0.1, answer });
    const handle = () => {
      began = true;
      return finished;
    };
    const until = () => (cancel ? server.sent('/heartbeat').length > 2 : began);
    assert.deepEqual(await server.run(handle, until, SHORT), { ...NONE, succeeded: 1 });
    assert.deepEqual(endingsOf(server).map(({ result }) => result), ['written']);
    assert.deepEqual(server.sent('/release'), []);
  }
});

test('a worker that must leave at once leaves the lease of a handler to its end', async () => {
  const server = new FakeServer();
  let began;
  const begun = new Promise((resolve) => (began = resolve));
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker(server.client(), { types: ['t'], warn: () => {}, ...SHORT }, () => (began(), finished));
  const running = worker.run();
  await begun;
  worker.stop();
  assert.equal(await Promise.race([running, pause(300, 'waits')]), 'waits');
  worker.stop({ atOnce: true });
  assert.deepEqual(await running, { ...NONE, lost: 1 });
  finish();
  await pause(50);
  assert.deepEqual([server.sent('/release'), server.sent('/finish')], [[], []]);
});

test('an item that is delivered at most once is not released after it has begun', async () => {
  const answer = (path) => (path.endsWith('/release') ? problem(409, { code: 'already_started' }) : undefined);
  const cases = [
    [(task) => pause(60_000, undefined, { signal: task.signal }), 0],
    [(task) => new Promise((_, reject) => task.signal.addEventListener('abort', () => reject(task.signal.reason))), 0],
    [() => Promise.reject(new Release()), 1],
  ];
  for (const [handle, releases] of cases) {
    const server = new FakeServer({ answer, item: { delivery: 'at_most_once' } });
    let began = false;
    const summary = await server.run((task) => ((began = true), handle(task)), () => began, SHORT);
    assert.deepEqual(summary, { ...NONE, failed: 1 });
    assert.deepEqual(endingsOf(server).map(({ error }) => error.kind), ['worker_stopped']);
    assert.equal(server.sent('/release').length, releases);
  }
});

test('a handler whose heartbeats are not answered is stopped before its lease ends', async () => {
  const silent = (_, __, { signal }) => new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const server = new FakeServer({ heartbeatSeconds: 0.4, answer: (path, ...rest) => (path.endsWith('/heartbeat') ? silent(path, ...rest) : undefined) });
  const began = Date.now();
  let stopped;
  const handle = (task) =>
    new Promise((_, reject) =>
      task.signal.addEventListener('abort', () => {
        stopped = Date.now() - began;
        reject(task.signal.reason);
      }),
    );
  assert.deepEqual(await server.run(handle, () => stopped), { ...NONE, lost: 1 });
  assert.ok(stopped < 1_200, `after ${stopped} ms of 1,200`);
  assert.ok(server.sent('/heartbeat').length >= 2, 'another one is sent after the first');
});

test('a worker looks for work by itself while RabbitMQ is away', async () => {
  const server = new FakeServer({ items: 5 });
  const summary = await server.run(() => 1, () => endingsOf(server).length === 5, { amqpUrl: 'amqp://127.0.0.1:1' });
  assert.deepEqual(summary, { ...NONE, succeeded: 5 });
  const waits = server.sent('/assignments').map((body) => body.wait_seconds);
  assert.ok(waits.slice(0, 5).every((seconds) => seconds === 5), String(waits));
});

const notFound = () => new Response('404 page not found', { status: 404 });

test('a claim is sent again with its id until it is answered', async () => {
  const answers = [() => Promise.reject(new Error('the answer was lost')), notFound, () => problem(503, { code: 'busy' }), () => ({ status: 'ok' })];
  const answer = (path) => (path === '/assignments' ? answers.shift()?.() : undefined);
  const server = new FakeServer({ answer, client: { retryTimeout: 0 } });
  assert.deepEqual(await server.run(() => 1, () => endingsOf(server).length > 0), { ...NONE, succeeded: 1 });
  const claims = server.sent('/assignments').map((body) => body.claim_id);
  assert.equal(new Set(claims.slice(0, 5)).size, 1);
  assert.notEqual(claims[4], claims[5]);
});

test('a claim that is answered late is confirmed before its work begins', async () => {
  for (const isOver of [true, false]) {
    const answer = async (path) => {
      if (path === '/assignments' && server.sent('/assignments').length === 1) await pause(1_000);
      return isOver && path.endsWith('/heartbeat') ? { heartbeats: [{ assignment_id: 'assignment-0', status: 409 }] } : undefined;
    };
    const server = new FakeServer({ heartbeatSeconds: 0.5, answer });
    const heartbeats = [];
    const until = () => server.sent(isOver ? '/heartbeat' : '/finish').length > 0;
    const summary = await server.run(() => void heartbeats.push(server.sent('/heartbeat').length), until);
    assert.deepEqual(summary, isOver ? { ...NONE, lost: 1 } : { ...NONE, succeeded: 1 });
    assert.deepEqual(heartbeats, isOver ? [] : [1]);
  }
});

test('a result outlives a proxy that answers instead of the server', async () => {
  const answers = [
    notFound,
    () => Response.json({ code: 'forbidden' }, { status: 403 }),
    () => new Response(null, { status: 302, headers: { location: '/login' } }),
    () => new Response('<html>'),
    () => Response.json({}),
  ];
  const answer = (path) => (path.endsWith('/finish') ? answers.shift()?.() : undefined);
  const server = new FakeServer({ answer, client: { retryTimeout: 0 } });
  assert.deepEqual(await server.run(() => 'paid', () => endingsOf(server).length === 6), { ...NONE, succeeded: 1 });
  assert.ok(endingsOf(server).every(({ result }) => result === 'paid'));
});

test('an ending that never reaches the server is left to its lease', async () => {
  const answer = (path) => (path.endsWith('/finish') ? new Response('blocked by the firewall', { status: 403 }) : undefined);
  const server = new FakeServer({ heartbeatSeconds: 0.2, answer });
  assert.deepEqual(await server.run(() => 'drop table', () => endingsOf(server).length > 2), { ...NONE, lost: 1 });
  assert.ok(endingsOf(server).every(({ result }) => result === 'drop table'));
});

test('a result that is too large for a proxy is a failure', async () => {
  const answer = (path, body) => (path.endsWith('/finish') && 'result' in body.endings[0] ? new Response('too large', { status: 413 }) : undefined);
  const server = new FakeServer({ answer });
  assert.deepEqual(await server.run(() => 'x', () => endingsOf(server).length === 2), { ...NONE, failed: 1 });
});

test('handlers are stopped in time although the server does not answer the last claim', async () => {
  for (const atOnce of [false, true]) {
    let asked;
    const isAsked = new Promise((resolve) => (asked = resolve));
    const answer = (path, _, { signal }) => {
      if (path !== '/assignments' || server.sent('/assignments').length === 1) return undefined;
      asked();
      return new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const server = new FakeServer({ answer });
    let began;
    const begun = new Promise((resolve) => (began = resolve));
    const handle = (task) => new Promise((resolve) => (began(), task.signal.addEventListener('abort', () => resolve('done'))));
    const options = { types: ['t'], concurrency: 2, warn: () => {}, ...(atOnce ? { drainSeconds: 60 } : SHORT) };
    const worker = new Worker(server.client(), options, handle);
    const running = worker.run();
    await Promise.all([begun, isAsked]);
    const leftAt = performance.now();
    worker.stop();
    if (atOnce) worker.stop({ atOnce });
    assert.deepEqual(await running, atOnce ? { ...NONE, lost: 1 } : { ...NONE, succeeded: 1 });
    assert.ok(performance.now() - leftAt < (atOnce ? 1_500 : 10_000));
  }
});
