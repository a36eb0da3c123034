// The five examples, and the worker of README.md as written, against a real server.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../dist/index.js';
import { collect, startServer } from './support.mjs';

const file = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
let server;
let client;

before(async () => {
  server = await startServer();
  client = new Client({ url: server.url, token: server.token });
});

after(() => server.stop());

/** Starts a program; `ended` resolves to its code, its signal, and its output. */
function start(...command) {
  const env = { ...process.env, TREELINE_URL: server.url, TREELINE_TOKEN: server.token };
  const child = spawn(command[0], command.slice(1), { env, cwd: file('.') });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (output += bytes));
  const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, output })));
  return { child, ended };
}

for (const [example, endsWith] of [
  ['payroll', '11 of 12 paid, 22 bookings, at most 1 payment a bank at a time'],
  ['refund', '4 workers died over a refund, and each of its 3 steps happened once'],
  ['website', 'two sites run: one was repaired on the way, one was given up and made anew'],
  ['bird-import', '9,995 rows went through, 5 came home, were mended, and went through'],
  ['invoices', 'one card charged at most once'],
]) {
  test(`the example ${example} keeps its promises`, { timeout: 180_000 }, async () => {
    const { code, output } = await start(process.execPath, file(`dist-examples/${example}.js`)).ended;
    assert.equal(code, 0, output);
    assert.ok(output.trim().endsWith(endsWith), output);
    assert.doesNotMatch(output, /POST|PUT|GET/, 'no call was refused on the way');
  });
}

async function waitFor(id, succeeded) {
  for await (const state of client.watch(id)) if (state.counts.succeeded >= succeeded) return;
  assert.fail(`the job ended before ${succeeded} items had succeeded`);
}

test('the worker of the README loses and doubles nothing', { timeout: 180_000 }, async (context) => {
  const source = /program of its own:\n+```ts\n([^]*?)```/.exec(await readFile(file('README.md'), 'utf8'))[1];
  assert.ok(source.trim().split('\n').length <= 20, 'it is meant to be read at a glance');
  // Next to the package, so that it is found by its name, and compiled as strictly as the package.
  const program = file('examples/readme-worker.ts');
  const compiled = file('dist-examples/readme-worker.js');
  context.after(() => Promise.all([program, compiled].map((path) => rm(path, { force: true }))));
  await writeFile(program, source);
  const tsc = await start('npx', 'tsc', '--project', 'tsconfig.examples.json').ended;
  assert.equal(tsc.code, 0, tsc.output);
  const worker = () => {
    const started = start(process.execPath, compiled);
    context.after(() => started.child.kill('SIGKILL'));
    return started;
  };

  await client.putJobType('letters', { heartbeat_seconds: 1, max_failures: 10, steps: ['sent'] });
  const items = [...Array.from({ length: 40 }, (_, n) => ({ payload: { to: `person ${n}` } })), { payload: {} }];
  const { id } = await client.createJob({ type: 'letters', items, sealed: true });
  const killed = worker();
  await waitFor(id, 6);
  killed.child.kill('SIGKILL');
  await killed.ended;

  const drained = worker();
  await waitFor(id, 20);
  drained.child.kill('SIGTERM');
  const { code, output } = await drained.ended;
  assert.equal(code, 0, output);
  const running = await collect(client.items({ job: id, state: 'running' }));
  const holders = running.map((item) => item.assignment?.worker_id ?? '');
  assert.ok(!holders.some((name) => name.endsWith(`-${drained.child.pid}`)), 'a worker that leaves finishes what it holds');

  const last = worker();
  const many = Array.from({ length: 20 }, () => items).flat();
  const abandoned = (await client.createJob({ type: 'letters', items: many, sealed: true })).id;
  await waitFor(abandoned, 1);
  await client.cancel(abandoned);
  assert.equal((await client.wait(abandoned)).tree.outcome, 'cancelled');
  const done = await client.wait(id);
  last.child.kill('SIGTERM');
  assert.equal((await last.ended).code, 0);

  assert.deepEqual([done.counts.succeeded, done.counts.dead], [40, 1]);
  const results = (await collect(client.results(id))).map((line) => line.result.sent_to);
  assert.deepEqual(results.sort(), items.slice(0, 40).map((item) => item.payload.to).sort());
  let lost = 0;
  for await (const item of client.items({ job: id, state: 'succeeded' })) {
    const attempts = await client.request('GET', `/items/${item.id}/attempts`);
    const ends = attempts.data.map((attempt) => attempt.ended_as);
    assert.equal(ends.pop(), 'succeeded');
    // A worker that leaves gives back at once what its last claim brought.
    assert.ok(ends.every((end) => end === 'lease_lost' || end === 'released'), String(ends));
    lost += ends.filter((end) => end === 'lease_lost').length;
  }
  assert.ok(lost >= 1, 'the killed program held something');
  const [failed] = await collect(client.failures(id));
  assert.equal(failed.error.kind, 'bad_payload');
});
