// Workers of a server that is made up.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Failure, Release } from '../dist/worker.js';
import { FakeServer, problem } from './fake.mjs';

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
