// Scenarios of programs that manage schedules, limits, and alert channels, against a real server.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { Client, verifyWebhook } from '../dist/index.js';
import { collect, startServer } from './support.mjs';

let server;
let client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, token: server.token });
});

after(() => server.stop());

async function jobType() {
  const name = `t-${randomBytes(4).toString('hex')}`;
  await client.putJobType(name, { max_failures: 2 });
  return name;
}

function nightly(type) {
  const job = { type, sealed: true, items: [{ payload: 1 }] };
  return { name: `nightly ${type}`, cron: '0 3 * * *', time_zone: 'Europe/Berlin', job };
}

test('a schedule is created once and changed', async () => {
  const schedule = nightly(await jobType());
  const key = randomUUID();
  const made = await client.createSchedule(schedule, { key });
  assert.equal((await client.createSchedule(schedule, { key })).id, made.id);
  const listed = (await collect(client.schedules())).filter((one) => one.name === made.name);
  assert.deepEqual(listed.map((one) => one.id), [made.id]);
  assert.equal(made.next_runs.length, 5);

  const changed = await client.patchSchedule(made.id, { cron: '@hourly', overlap: 'queue', ends_at: '2100-01-31T00:00:00Z' });
  assert.deepEqual([changed.cron, changed.overlap, changed.time_zone], ['@hourly', 'queue', 'Europe/Berlin']);
  assert.deepEqual(changed.job, made.job);
  assert.notEqual(changed.ends_at, null);
  assert.equal((await client.patchSchedule(made.id, { ends_at: null })).ends_at, null);
  await assert.rejects(client.patchSchedule(made.id, { cron: 'every day' }), (error) => error.status === 422 && /\/cron/.test(error.message));
  assert.equal((await client.schedule(made.id)).cron, '@hourly');
});

test('a schedule is paused, run by hand, resumed, and deleted', async () => {
  const type = await jobType();
  const { id } = await client.createSchedule(nightly(type));
  const paused = await client.pauseSchedule(id);
  assert.deepEqual([paused.paused, paused.next_runs.length], [true, 5]);
  const ran = await client.runSchedule(id, 'the numbers of March');
  assert.equal((await client.resumeSchedule(id)).paused, false);

  const [run, ...others] = await collect(client.scheduleRuns(id, { limit: 1 }));
  assert.equal(others.length, 0);
  assert.deepEqual(run, ran.last_run);
  assert.deepEqual([run.state, run.by_hand], ['started', true]);
  assert.equal((await client.job(run.job_id)).type, type);
  await client.deleteSchedule(id);
  await assert.rejects(client.schedule(id), { code: 'not_found' });
  assert.equal((await client.job(run.job_id)).id, run.job_id, 'its trees stay');
});

test('limits of a type are changed and hold', async () => {
  const type = await jobType();
  const limits = { rate_limit: { count: 1, per_seconds: 3_600, key: '/customer' }, concurrency_by: { key: '/customer', limit: 1 } };
  const changed = await client.patchJobType(type, limits);
  assert.deepEqual([changed.rate_limit, changed.max_failures], [limits.rate_limit, 2], 'the other fields stay');
  assert.deepEqual((await client.jobType(type)).concurrency_by, limits.concurrency_by);
  assert.ok((await collect(client.jobTypes({ sort: 'name', limit: 2 }))).some((one) => one.name === type));

  const items = ['a', 'a', 'b'].map((customer) => ({ payload: { customer } }));
  const { id } = await client.createJob({ type, sealed: true, items });
  const claim = async () => {
    const body = { worker_id: 'one', types: [type], max: 3, wait_seconds: 20, claim_id: randomUUID() };
    return (await client.request('POST', '/assignments', { body, idempotent: true })).assignments.map((one) => one.item);
  };
  assert.deepEqual((await claim()).map((item) => item.payload.customer).sort(), ['a', 'b']);
  const [waiting, ...others] = await collect(client.items({ job: id, state: 'available' }));
  assert.equal(others.length, 0);
  assert.match(waiting.waiting_for.reason, /^(rate_limit|concurrency_key)$/);

  assert.equal((await client.patchJobType(type, { rate_limit: null, concurrency_by: null })).rate_limit, null);
  assert.deepEqual((await claim()).map((item) => item.id), [waiting.id]);
});

test('an alert channel receives what its rule says', async () => {
  const type = await jobType();
  const secret = 'a-secret-of-the-channel';
  const waiters = [];
  const messages = [];
  const receiver = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    response.writeHead(204).end();
    const message = await verifyWebhook(body, request.headers, secret);
    const waiter = waiters.shift();
    if (waiter === undefined) messages.push(message);
    else waiter(message);
  }).listen(0, '127.0.0.1');
  const message = () => messages.shift() ?? new Promise((resolve) => waiters.push(resolve));
  await new Promise((resolve) => receiver.once('listening', resolve));
  try {
    const url = `http://127.0.0.1:${receiver.address().port}/alerts`;
    const key = randomUUID();
    const channel = { name: type, kind: 'webhook', url, secret, paused: true };
    const { id } = await client.createAlertChannel(channel, { key });
    assert.equal((await client.createAlertChannel(channel, { key })).id, id);
    const changed = await client.patchAlertChannel(id, { kinds: ['worker'], types: [type], paused: false });
    assert.deepEqual([changed.types, changed.min_count], [[type], 1]);
    assert.deepEqual(await client.alertChannel(id), changed);
    assert.ok((await collect(client.alertChannels({ limit: 1 }))).some((one) => one.id === id));
    const [delivery] = await client.testAlertChannel(id);
    assert.equal(delivery.alert.event, 'test');
    assert.equal((await message()).type, 'alert.test');

    await client.createJob({ type, sealed: true, items: [{ payload: 1 }] });
    const claimed = await client.request('POST', '/assignments', { body: { worker_id: 'one', types: [type], max: 1 } });
    await client.request('POST', `/assignments/${claimed.assignments[0].id}/alert`, { body: { message: 'no ink' } });
    const raised = await message();
    assert.deepEqual([raised.type, raised.data.message], ['alert.raised', 'one: no ink']);
    assert.ok((await collect(client.alerts({ kind: 'worker' }))).some((alert) => alert.id === raised.data.id));

    await client.deleteAlertChannel(id);
    await assert.rejects(client.alertChannel(id), { status: 404 });
  } finally {
    receiver.close();
  }
});
