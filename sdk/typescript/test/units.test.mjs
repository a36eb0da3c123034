// Parts that need no server.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';

import { ApiError, Client, InvalidWebhook, UnexpectedResponse, verifyWebhook } from '../dist/index.js';
import { isForeign, isRefusal, isTransient, mayRepeat, retryAfter } from '../dist/retry.js';
import { eventsOf, linesOf } from '../dist/sse.js';
import { problem } from './fake.mjs';

const sign = (secret, body, at) => ({
  'Webhook-Id': 'msg_1',
  'webhook-timestamp': String(at),
  'webhook-signature': `v1,${createHmac('sha256', secret).update(`msg_1.${at}.${body}`).digest('base64')}`,
});

test('a valid webhook is returned and a changed one is not', async () => {
  const now = Math.floor(Date.now() / 1_000);
  const body = '{"type":"tree.completed"}';
  const headers = sign('plain-secret', body, now);
  assert.deepEqual(await verifyWebhook(body, headers, 'plain-secret'), { type: 'tree.completed' });
  assert.deepEqual(await verifyWebhook(body, new Headers(headers), ['other-one', 'plain-secret']), { type: 'tree.completed' });
  for (const [text, given, secret] of [
    ['{"type":"other"}', headers, 'plain-secret'],
    [body, headers, 'wrong-secret'],
    [body, { ...headers, 'webhook-timestamp': String(now + 1) }, 'plain-secret'],
    [body, { ...headers, 'webhook-signature': 'v1,%%% v2,x' }, 'plain-secret'],
    [body, { 'webhook-id': 'msg_1' }, 'plain-secret'],
    [body, sign('plain-secret', body, now - 301), 'plain-secret'],
  ]) {
    await assert.rejects(verifyWebhook(text, given, secret), InvalidWebhook);
  }
});

test('the example of the specification is accepted', async () => {
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  };
  const body = '{"test": 2432232314}';
  assert.deepEqual(await verifyWebhook(body, headers, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 1_614_265_330), { test: 2432232314 });
});

test('events are read across pieces and lines', async () => {
  const pieces = [': comment\nevent: cha', 'nge\ndata: {"a":\r\ndata: 1}\n', '\nretry: 2', '0000\ndata: x\n\n'];
  const bytes = new TextEncoder();
  const stream = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(bytes.encode(piece));
      controller.close();
    },
  });
  const events = await collect(eventsOf(linesOf(stream)));
  assert.deepEqual(events, [{ name: 'change', data: '{"a":\n1}' }, { name: 'message', data: 'x', retry: 20 }]);
});

async function collect(values) {
  const all = [];
  for await (const value of values) all.push(value);
  return all;
}

test('only safe calls are sent again', () => {
  const of = (status, code, pause) => new ApiError('POST /x', status, { code }, pause);
  for (const error of [of(503, 'busy'), of(503), of(429)]) assert.ok(mayRepeat(error, false));
  for (const error of [of(502), of(504), of(503, 'database_unavailable', 2)]) {
    assert.ok(!mayRepeat(error, false) && mayRepeat(error, true));
  }
  for (const error of [of(500), of(404), of(409, 'conflict', 1), of(409, 'duplicate')]) assert.ok(!mayRepeat(error, true, true));
  assert.ok(mayRepeat(of(409, 'duplicate', 1), true, true) && !mayRepeat(of(409, 'duplicate', 1), true));
  assert.equal(retryAfter('3'), 3);
  assert.equal(retryAfter('100000'), 60);
  assert.equal(retryAfter('Wed, 21 Oct 2015 07:28:00 GMT'), 0);
  assert.equal(retryAfter('soon'), undefined);
});

/** A client whose requests get these answers, and the requests. */
function clientOf(...answers) {
  const requests = [];
  const answer = async (url, init) => {
    requests.push({ url, ...init });
    return answers.shift();
  };
  return [new Client({ url: 'http://fake', token: 'token', fetch: answer }), requests];
}

test('a schedule runs once although the database was away and the first request is still being answered', async () => {
  const retry = { 'retry-after': '0' };
  const [client, requests] = clientOf(
    problem(503, { code: 'database_unavailable' }, retry),
    problem(409, { code: 'duplicate' }, retry),
    Response.json({ id: 'S' }),
  );
  assert.equal((await client.runSchedule('S')).id, 'S');
  assert.equal(requests.length, 3);
  assert.equal(new Set(requests.map(({ headers }) => headers['Idempotency-Key'])).size, 1);
});

test('a call that the server may have run is not sent again', async () => {
  const [client, requests] = clientOf(problem(503, { code: 'database_unavailable' }, { 'retry-after': '0' }));
  await assert.rejects(client.retry('item'), { status: 503, code: 'database_unavailable' });
  assert.equal(requests.length, 1);
});

test('a server with too many streams is asked by long polls', async () => {
  const busy = () => new Response('event: busy\ndata: {}\nretry: 3500\n\n');
  const job = (version, status) => Response.json({ version, tree: { status } });
  const [client, requests] = clientOf(busy(), job(1, 'running'), job(2, 'completed'));
  assert.deepEqual((await collect(client.watch('J'))).map(({ version }) => version), [1, 2]);
  assert.deepEqual(requests.map(({ url }) => new URL(url).search), ['', '?wait_seconds=3', '?wait_seconds=2']);
});

test('a stream that the server ends is not opened again at once', async () => {
  const [client, requests] = clientOf(new Response('event: bye\ndata: {}\nretry: 60000\n\n'), new Response(''));
  await assert.rejects(collect(client.watch('J', { signal: AbortSignal.timeout(300) })), { name: 'TimeoutError' });
  assert.equal(requests.length, 1);
});

test('a request that is not answered in time is given up', async () => {
  const silent = (_, { signal }) => new Promise((__, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const client = new Client({ url: 'http://fake', token: 'token', fetch: silent, timeout: 0.1, retryTimeout: 0 });
  await assert.rejects(client.me(), { name: 'ConnectionFailed', message: /there was no answer in time/ });
});

test('only a problem document of Treeline is a refusal', async () => {
  const errorOf = (response) => clientOf(response)[0].retry('item').then(assert.fail, (error) => error);
  for (const refused of [problem(404, { code: 'not_found' }), problem(422), new Response('too large', { status: 413 })]) {
    assert.ok(isRefusal(await errorOf(refused)));
  }
  const about = { type: 'about:blank', code: 'unauthenticated' };
  for (const answered of [
    new Response('404 page not found', { status: 404 }),
    Response.json({ code: 'forbidden' }, { status: 403 }),
    Response.json(about, { status: 401, headers: { 'content-type': 'application/problem+json' } }),
    new Response(null, { status: 308, headers: { location: 'https://fake/' } }),
  ]) {
    const error = await errorOf(answered);
    assert.ok(isForeign(error) && !isRefusal(error) && error.code === '', String(error));
  }
  const page = await errorOf(new Response('<html>'));
  assert.ok(page instanceof UnexpectedResponse && isForeign(page) && !isTransient(page), String(page));
});

test('a redirect is not followed and is no success', async () => {
  const [client, requests] = clientOf(new Response(null, { status: 308, headers: { location: 'https://fake/' } }));
  await assert.rejects(client.deleteSchedule('S'), { status: 308, message: /redirected to https:\/\/fake\// });
  assert.equal(requests[0].redirect, 'manual');
});

test('a key is any text', async () => {
  const [client, requests] = clientOf(Response.json({ id: 'J' }));
  await client.createJob({ type: 't' }, { key: 'Löhne-März €' });
  const [, sent] = [...new Headers(requests[0].headers)].find(([name]) => name === 'idempotency-key');
  assert.equal(Buffer.from(sent, 'latin1').toString(), 'Löhne-März €');
});

test('a malformed address is no lost connection', async () => {
  await assert.rejects(new Client({ url: 'http://[', retryTimeout: 60 }).me(), { name: 'TypeError' });
});

test('an empty secret verifies nothing', async () => {
  const now = Math.floor(Date.now() / 1_000);
  for (const empty of ['', 'whsec_']) await assert.rejects(verifyWebhook('{}', sign('', '{}', now), empty), { name: 'RangeError' });
  assert.deepEqual(await verifyWebhook('{}', sign('secrets', '{}', now), 'whsec_c2VjcmV0cw'), {});
});

test('a watch goes on while the database is away, reads its job by long polls, and ends with it', async () => {
  const [client, requests] = clientOf(
    problem(503, { code: 'database_unavailable' }),
    problem(503, { code: 'database_unavailable' }),
    problem(429, { code: 'quota_exceeded' }, { 'retry-after': '2' }),
    Response.json({ version: 7, tree: { status: 'running' } }),
    problem(410, { code: 'job_removed' }),
  );
  assert.deepEqual((await collect(client.watch('J'))).map(({ version }) => version), [7]);
  assert.deepEqual(requests.map(({ url }) => new URL(url).search !== ''), [false, false, false, true, false]);
});

/**
 * Uploads a blob in pieces of 100 bytes to a server that answers with `faults` first, and returns what it has stored. Of a
 * piece with the fault `invalid_body`, the first half is stored. The fault null is the usual answer; `before` is called
 * before each other one.
 */
async function uploaded(blob, faults, before = () => undefined) {
  let stored = '';
  const answer = async (_, { method, headers, body }) => {
    if (method === 'POST') return new Response('', { status: 201, headers: { location: '/api/v1/uploads/resumable/U' } });
    const fault = faults.shift() ?? null;
    if (fault !== null) {
      before();
      if (fault instanceof Error) throw fault;
      const { code } = await fault.clone().json().catch(() => ({}));
      if (code === 'invalid_body') stored += (await body.text()).slice(0, body.size / 2);
      return fault;
    }
    if (method === 'PATCH') {
      assert.equal(Number(headers['upload-offset']), stored.length);
      stored += await body.text();
    }
    return Response.json({ id: 'U' }, { headers: { 'upload-offset': String(stored.length) } });
  };
  await new Client({ url: 'http://fake', token: 'token', fetch: answer, chunk: 100, retryTimeout: 0 }).upload(blob, 'rows.csv');
  return stored;
}

const reloading = () => new Response('404 page not found', { status: 404 });
const rows = Array.from({ length: 350 }, (_, n) => String.fromCharCode(32 + (n % 90))).join('');

test('an upload goes on where it broke off', async () => {
  // Of pieces and of the questions for the offset after them.
  const faults = [
    problem(422, { code: 'invalid_body' }),
    new Response('<html>'),
    null,
    new Response('', { status: 502 }),
    problem(503, { code: 'database_unavailable' }),
    null,
    null,
    new TypeError('fetch failed'),
    reloading(),
    null,
    null,
    problem(409, { code: 'wrong_offset' }),
    problem(500, { code: 'internal' }),
    null,
    problem(429, { code: 'quota_exceeded' }, { 'retry-after': '0.01' }),
  ];
  assert.equal(await uploaded(new Blob([rows]), faults), rows);
  assert.deepEqual(faults, []);
});

test('a piece that takes longer than the stall time may fail', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 0 });
  let now = 0;
  const faults = [new Response('', { status: 502 }), null];
  const pass = () => t.mock.timers.setTime((now += 500_000));
  assert.equal(await uploaded(new Blob([rows]), faults, pass), rows);
});

test('a slow piece after a failed attempt ends an upload only if nothing of it has arrived', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 0 });
  let now = 0;
  const pass = () => t.mock.timers.setTime((now += 500_000));
  const broken = () => new Response('', { status: 502 });
  assert.equal(await uploaded(new Blob([rows]), [broken(), null, problem(422, { code: 'invalid_body' })], pass), rows);
  await assert.rejects(uploaded(new Blob([rows]), [broken(), null, problem(503, { code: 'busy' })], pass), { status: 503, code: 'busy' });
});

test('an upload that does not move fails with the last error', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 0 });
  let now = 0;
  const faults = [reloading(), reloading(), reloading(), problem(503, { code: 'busy' }), reloading()];
  const pass = () => t.mock.timers.setTime((now += 45_000));
  await assert.rejects(uploaded(new Blob([rows]), faults, pass), { status: 503, code: 'busy' });
  assert.equal(faults.length, 1);
});

test('a refusal ends an upload', async () => {
  const refusals = [
    problem(429, { code: 'quota_exceeded' }, { 'retry-after': '60' }),
    problem(507, { code: 'insufficient_storage' }),
    problem(404, { code: 'not_found' }),
    new Response('', { status: 413 }),
  ];
  for (const refusal of refusals) {
    const { status } = refusal;
    await assert.rejects(uploaded(new Blob([rows]), [refusal.clone()]), { status });
    await assert.rejects(uploaded(new Blob([rows]), [reloading(), refusal]), { status });
  }
});
