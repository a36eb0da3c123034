// Workers of a server that is made up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Assigned, now } from '../dist/assignment.js';
import { Failure, Release, Wait, Worker } from '../dist/worker.js';
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
  // It is released, as by the other workers: it was dropped, although only Treeline knows whether the lease is over.
  assert.deepEqual(await server.run(handle, () => server.sent('/release').length > 0), { ...NONE, released: 1 });
  assert.ok(stopped < 1_200, `after ${stopped} ms of 1,200`);
  assert.ok(server.sent('/heartbeat').length >= 2, 'another one is sent after the first');
});

test('the item of a handler that fails when stopped is released unless that is unsafe', async () => {
  const cases = [
    [new Error('the pool is closed'), 'at_least_once', { ...NONE, released: 1 }],
    [new Failure('the pool is closed'), 'at_least_once', { ...NONE, released: 1 }],
    [new Failure('the bank is busy', { retryAfterSeconds: 60 }), 'at_least_once', { ...NONE, released: 1 }],
    [new Failure('declined', { retryable: false }), 'at_least_once', { ...NONE, failed: 1 }],
    [new Failure('the account is closed', { cancelTree: true }), 'at_least_once', { ...NONE, failed: 1 }],
    [new Error('the pool is closed'), 'at_most_once', { ...NONE, failed: 1 }],
  ];
  for (const isLost of [true, false]) {
    for (const [cause, delivery, summary] of cases) {
      const answer = (path) => (isLost && path.endsWith('/heartbeat') ? new Response('', { status: 502 }) : undefined);
      const server = new FakeServer({ heartbeatSeconds: isLost ? 0.2 : 60, answer, item: { delivery } });
      let began = false;
      const handle = (task) => {
        began = true;
        return new Promise((_, reject) => task.signal.addEventListener('abort', () => reject(cause)));
      };
      const until = () => (isLost ? server.sent('/release').length + endingsOf(server).length > 0 : began);
      assert.deepEqual(await server.run(handle, until, { drainSeconds: 0.05, graceSeconds: 5 }), summary);
      if (cause.options?.retryAfterSeconds !== undefined) assert.deepEqual(server.sent('/release'), [{ retry_after_seconds: 60 }]);
    }
  }
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
  assert.deepEqual(await server.run(() => 1, () => server.sent('/assignments').length > 5), { ...NONE, succeeded: 1 });
  const claims = server.sent('/assignments').map((body) => body.claim_id);
  assert.equal(new Set(claims.slice(0, 5)).size, 1);
  assert.notEqual(claims[4], claims[5]);
});

test('a claim is not sent again before the time that the server asks for, or the stop of the worker', { timeout: 20_000 }, async () => {
  const pauses = ['0.6', '60'];
  const times = [];
  const answer = (path) => {
    if (path !== '/assignments' || pauses.length === 0) return undefined;
    times.push(performance.now());
    return problem(503, { code: 'busy' }, { 'retry-after': pauses.shift() });
  };
  const server = new FakeServer({ items: 0, answer, client: { retryTimeout: 0 } });
  let warnings = 0;
  const warn = () => (warnings += 1);
  assert.deepEqual(await server.run(() => 1, () => warnings === 2, { warn }), NONE);
  assert.ok(times[1] - times[0] > 550, `after ${times[1] - times[0]} ms of 600`);
  assert.deepEqual(server.sent('/assignments').map((body) => body.item_ids), [undefined, undefined, []]);
});

// It left at once: its handlers ran on without heartbeats, and nothing was reported.
test('a worker whose claim is refused ends its work, and then throws', { timeout: 20_000 }, async () => {
  const refusals = [[401, 'unauthorized'], [403, 'forbidden'], [422, 'unknown_type']];
  for (const [status, code] of refusals) {
    let finish;
    const finished = new Promise((resolve) => (finish = resolve));
    const untilAborted = ({ signal }) => pause(60_000, undefined, { signal });
    const cases = [
      [() => finished, {}, { ...NONE, succeeded: 1 }],
      [untilAborted, { drainSeconds: 0.05 }, { ...NONE, released: 1 }],
    ];
    for (const [handle, options, summary] of cases) {
      const answer = (path, body) => {
        if (server.sent('/heartbeat').length === 2) finish();
        return path === '/assignments' && body.max === 1 ? problem(status, { code }) : undefined;
      };
      const server = new FakeServer({ heartbeatSeconds: 0.2, answer });
      const worker = new Worker(server.client(), { types: ['t'], concurrency: 2, warn: () => {}, ...options }, handle);
      await assert.rejects(worker.run(), { name: 'ApiError', status });
      assert.deepEqual(worker.summary, summary);
      // What an earlier request with the same id may have taken is given back.
      const [, refused, last, ...others] = server.sent('/assignments');
      assert.deepEqual([last.claim_id, last.item_ids, others], [refused.claim_id, [], []]);
    }
  }
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

// Finished work became a failure, because the server did not take its token for a moment.
test('an ending outlives a refusal that is about the caller', async () => {
  const ends = [
    ['/finish', () => 'paid', { ...NONE, succeeded: 1 }],
    ['/wait', () => Promise.reject(new Wait('payment')), { ...NONE, released: 1 }],
    ['/release', () => Promise.reject(new Release()), { ...NONE, released: 1 }],
  ];
  const outlives = async ([ending, handle, summary]) => {
    const refusals = [[401, 'unauthorized'], [403, 'forbidden'], [421, 'misdirected']];
    const answer = (path) => {
      const [status, code] = (path.endsWith(ending) && refusals.shift()) || [];
      return code && problem(status, { code });
    };
    const server = new FakeServer({ answer });
    assert.deepEqual(await server.run(handle, () => server.sent(ending).length === 4), summary);
  };
  await Promise.all(ends.map(outlives));
});

// The report was repeated for ever, in the only slot, so that no claim showed that the token was revoked.
test('a worker whose token is revoked ends when its leases have', { timeout: 20_000 }, async () => {
  for (const handle of [() => 'paid', () => Promise.reject(new Release()), () => Promise.reject(new Wait('payment'))]) {
    let isRevoked = false;
    const server = new FakeServer({ heartbeatSeconds: 0.2, answer: () => (isRevoked ? problem(401, { code: 'unauthorized' }) : undefined) });
    const work = () => {
      isRevoked = true;
      return handle();
    };
    const worker = new Worker(server.client(), { types: ['t'], concurrency: 1, warn: () => {} }, work);
    await assert.rejects(worker.run(), { name: 'ApiError', status: 401 });
    assert.deepEqual(worker.summary, { ...NONE, lost: 1 });
  }
});

/** Answer of a firewall to everything that mentions a table. */
const blocked = (_, body) => (JSON.stringify(body).includes('drop table') ? new Response('blocked by the firewall', { status: 403 }) : undefined);
const isRefused = ({ error }) => error?.kind === 'answer_refused';

// It was left to its lease, although heartbeats renewed it: the work ran again, on another worker.
test('a result that never reaches the server holds up no other and becomes a failure without it', async () => {
  const server = new FakeServer({ items: 3, heartbeatSeconds: 0.2, answer: blocked });
  const handle = (task) => (task.payload === 1 ? 'drop table' : 'fine');
  const summary = await server.run(handle, () => endingsOf(server).some(isRefused), { concurrency: 3 });
  assert.deepEqual(summary, { ...NONE, succeeded: 2, failed: 1 });
  const [ending, ...others] = endingsOf(server).filter(({ error }) => error !== undefined);
  const message = 'The answer was refused on the way to Treeline with status 403.';
  assert.deepEqual([ending.error, ending.retryable, others], [{ message, kind: 'answer_refused' }, false, []]);
});

test('a failure or a wait that never reaches the server becomes a failure without content', async () => {
  const ends = [
    [() => new Failure('drop table', { detail: 'x', retryAfterSeconds: 5 }), true, 5],
    [() => new Wait('drop table'), false, undefined],
  ];
  for (const [end, retryable, pause] of ends) {
    const server = new FakeServer({ heartbeatSeconds: 0.3, answer: blocked });
    const handle = () => {
      throw end();
    };
    assert.deepEqual(await server.run(handle, () => endingsOf(server).some(isRefused)), { ...NONE, failed: 1 });
    const [ending] = endingsOf(server).filter(isRefused);
    assert.deepEqual([ending.retryable, ending.retry_after_seconds], [retryable, pause]);
    assert.ok(!JSON.stringify(ending).includes('drop table'));
  }
});

// A 404 of the proxy that came after the time of a lease made the worker drop it, although leases outlast an outage.
test('an ending outlives an outage that is longer than its lease', async () => {
  const answer = (path) => {
    if (server.sent('/heartbeat').length > 20) return undefined; // one each 0.08 s, and a lease is 0.9 s
    if (path.endsWith('/heartbeat')) return new Response('no', { status: 503 });
    return path.endsWith('/finish') ? notFound() : undefined;
  };
  const server = new FakeServer({ heartbeatSeconds: 0.3, answer });
  const isFree = () => server.sent('/assignments').length > 1;
  assert.deepEqual(await server.run(() => 'paid', isFree), { ...NONE, succeeded: 1 });
  assert.ok(endingsOf(server).every(({ result }) => result === 'paid'));
});

test('an ending is given up when a heartbeat says that its assignment is closed', async () => {
  const closed = { heartbeats: [{ assignment_id: 'assignment-0', status: 409 }] };
  const answer = (path, body) => (path.endsWith('/heartbeat') ? closed : blocked(path, body));
  const server = new FakeServer({ heartbeatSeconds: 0.1, answer });
  const isFree = () => server.sent('/assignments').length > 1;
  assert.deepEqual(await server.run(() => 'drop table', isFree), { ...NONE, lost: 1 });
  assert.ok(endingsOf(server).every(({ result }) => result === 'drop table'));
});

test('a release is sent until it is answered', async () => {
  const no = () => new Response('no', { status: 503 });
  const answers = [no, notFound, () => Promise.reject(new Error('broken off')), () => problem(503, { code: 'busy' })];
  const answer = (path) => (path.endsWith('/release') ? answers.shift()?.() : undefined);
  const server = new FakeServer({ answer });
  const handle = () => {
    throw new Release();
  };
  assert.deepEqual(await server.run(handle, () => server.sent('/release').length === 5), { ...NONE, released: 1 });
});

test('an ending loses its content only if it is the only thing that is refused', () => {
  const held = new Assigned({ id: 'a', heartbeat_seconds: 60 }, now());
  held.beatAccepted(0, undefined);
  assert.deepEqual([held.reportUnanswered(10, true), held.reportUnanswered(300, true)], [false, false]);
  held.beatAccepted(300, undefined);
  assert.equal(held.reportUnanswered(301, true), false, 'after an outage');
  assert.deepEqual([held.reportUnanswered(301, false), held.reportUnanswered(302, true)], [false, false]);
  held.beatAccepted(420, undefined);
  assert.deepEqual([held.reportUnanswered(481, true), held.reportUnanswered(482, true)], [false, true], 'counted anew since 302');
  assert.equal(held.reportUnanswered(483, true), false, 'once');
});

test('progress that is refused on the way costs neither the lease nor the progress', async () => {
  const withProgress = [];
  const count = (had) => withProgress.filter((one) => one === had).length;
  let isBlocked = true;
  const answer = (path, body) => {
    if (path.endsWith('/heartbeat')) withProgress.push('progress' in body.heartbeats[0]);
    return isBlocked ? blocked(path, body) : undefined;
  };
  const server = new FakeServer({ heartbeatSeconds: 0.2, answer });
  const handle = async (task) => {
    task.progress({ message: 'drop table' });
    while (count(false) < 8) await pause(10, undefined, { signal: task.signal }); // a lease is three intervals
    isBlocked = false;
    for (const sent = count(true); count(true) === sent; ) await pause(10, undefined, { signal: task.signal });
    return 'done';
  };
  assert.deepEqual(await server.run(handle, () => endingsOf(server).length > 0), { ...NONE, succeeded: 1 });
  assert.ok(withProgress[0] && !withProgress.some((had, place) => had && withProgress[place + 1]));
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
