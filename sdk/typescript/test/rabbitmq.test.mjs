// Wake-ups from a real RabbitMQ, if AMQP_URL names one.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from '../dist/index.js';
import { Worker } from '../dist/worker.js';
import { startServer } from './support.mjs';

const { AMQP_URL } = process.env;
const skip = AMQP_URL === undefined && 'AMQP_URL names no broker';
let server;
let client;

before(async () => {
  if (skip) return;
  server = await startServer();
  client = new Client({ url: server.url, token: server.token });
});

after(() => server?.stop());

async function woken(amqpUrl, warn) {
  const type = `woken-${randomUUID()}`;
  await client.putJobType(type, {});
  let handled;
  const done = new Promise((resolve) => (handled = resolve));
  const worker = new Worker(client, { types: [type], concurrency: 2, amqpUrl, warn }, (task) => {
    if (task.payload === 3) handled();
    return task.payload;
  });
  const running = worker.run();
  await pause(2_000); // nothing tells that the consumer is there
  const began = performance.now();
  const { id } = await client.createJob({ type, sealed: true, items: [1, 2, 3].map((payload) => ({ payload })) });
  await done;
  const seconds = (performance.now() - began) / 1_000;
  await client.wait(id);
  worker.stop();
  return { seconds, summary: await running };
}

test('messages wake a worker long before it looks by itself', { skip }, async () => {
  const warnings = [];
  const { seconds, summary } = await woken(AMQP_URL, (warning) => warnings.push(warning));
  assert.ok(seconds < 10, `${seconds} s; the worker looks by itself every 30 s`);
  assert.deepEqual(summary, { succeeded: 3, failed: 0, released: 0, lost: 0 });
  // The server makes the queue of a new type a moment after the type.
  assert.deepEqual(warnings.filter((warning) => !warning.includes('NOT_FOUND')), []);
});

test('a worker without its broker still works', { skip, timeout: 90_000 }, async () => {
  const warnings = [];
  const { summary } = await woken('amqp://guest:guest@127.0.0.1:1', (warning) => warnings.push(warning));
  assert.equal(summary.succeeded, 3);
  assert.match(warnings[0], /RabbitMQ is not available/);
});

test('progress costs no claims', { skip }, async () => {
  const type = `woken-${randomUUID()}`;
  await client.putJobType(type, {});
  let claims = 0;
  const counting = (url, init) => {
    if (url.endsWith('/assignments')) claims += 1;
    return fetch(url, init);
  };
  const options = { types: [type], concurrency: 2, amqpUrl: AMQP_URL, warn: () => {} };
  let before;
  const worker = new Worker(new Client({ url: client.url, token: server.token, fetch: counting }), options, async (task) => {
    await pause(6_000); // until it is attached, a worker asks every five seconds
    before = claims;
    for (let done = 1; done <= 50; done += 1) {
      task.progress({ done });
      await pause(10);
    }
  });
  const running = worker.run();
  const { id } = await client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
  await client.wait(id);
  const during = claims - before;
  worker.stop();
  await running;
  assert.ok(during <= 2, `${during} claims during 50 reports`); // one for the slot that is free afterwards
});
