// Wake-ups from a RabbitMQ that is made up.
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';

import amqplib from 'amqplib';

import { Worker } from '../dist/worker.js';
import { FakeServer } from './fake.mjs';

/** Connection of `amqplib`. It emits `consume` with a function that delivers a message, `ack`, `channel closed`, and `close`. */
function fakeConnection() {
  const connection = new EventEmitter();
  const channel = {
    prefetch: async () => {},
    consume: async (_, receive) => connection.emit('consume', (id) => receive({ id, content: Buffer.from(JSON.stringify({ item_id: id })) })),
    ack: ({ id }) => connection.emit('ack', id),
    close: async () => connection.emit('channel closed'),
  };
  return Object.assign(connection, { createChannel: async () => channel, close: async () => connection.emit('close') });
}

function start(t, server, handler, amqpUrl = 'amqp://fake') {
  const worker = new Worker(server.client(), { types: ['t'], amqpUrl, warn: () => {} }, handler);
  t.after(() => worker.stop({ atOnce: true }));
  return { worker, running: worker.run() };
}

// It kept them from idle workers until its handler had ended.
test('a worker without a free slot gives messages back, and gets others once it has one', { timeout: 20_000 }, async (t) => {
  const connection = fakeConnection();
  t.mock.method(amqplib, 'connect', async () => connection);
  const acknowledged = [];
  connection.on('ack', (id) => acknowledged.push(id));
  let claim;
  const claimed = new Promise((resolve) => (claim = resolve));
  const server = new FakeServer({ answer: (_, body) => void (body.item_ids?.length > 0 && claim(body.item_ids)) });
  let begin;
  const begun = new Promise((resolve) => (begin = resolve));
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const attached = once(connection, 'consume');
  const { worker, running } = start(t, server, () => (begin(), finished));
  const [[deliver]] = await Promise.all([attached, begun]);
  const givenBack = once(connection, 'channel closed');
  deliver('item-1');
  await givenBack;
  assert.deepEqual(acknowledged, []);
  const attachedAgain = once(connection, 'consume');
  finish();
  const [deliverMore] = await attachedAgain;
  deliverMore('item-2');
  assert.deepEqual(await claimed, ['item-2']);
  assert.deepEqual(acknowledged, ['item-2']);
  worker.stop();
  assert.equal((await running).succeeded, 1);
});

test('a worker that is stopped while it connects closes its connection', { timeout: 20_000 }, async (t) => {
  const connection = fakeConnection();
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  t.mock.method(amqplib, 'connect', () => (ask(), opened));
  const { worker, running } = start(t, new FakeServer({ items: 0 }), () => 1);
  await asked;
  worker.stop();
  await running;
  const closed = once(connection, 'close');
  open(connection);
  await closed;
});

test('a broker that accepts a connection and does not answer loses it', { timeout: 20_000 }, async (t) => {
  const broker = createServer().listen(0, '127.0.0.1');
  await once(broker, 'listening');
  const { worker, running } = start(t, new FakeServer({ items: 0 }), () => 1, `amqp://127.0.0.1:${broker.address().port}`);
  const [socket] = await once(broker, 'connection');
  t.after(() => {
    socket.destroy();
    broker.close();
  });
  worker.stop();
  await running;
  const closed = once(socket, 'close');
  socket.resume();
  await closed;
});
