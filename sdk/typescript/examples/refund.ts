// Refund: executed exactly once, however often it is requested and however many workers die.
//
// The request carries an Idempotency-Key, so a repeated request returns the same tree. The work has three steps, and a
// recorded step is never repeated. No engine can close the gap between an action and its record; in that gap, downstream
// services recognize a repeated request by its key. A worker is a program of its own here, and it is killed.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { Client } from '@treeline/client';
import { Worker, type Task } from '@treeline/client/worker';

import { Downstream, order } from './downstream.js';
import { attempts, complete, expect, newWord, onlyItem, page, prepare, refused, run, same, say } from './scenario.js';

const REFUND = 'refund';
/** The steps, named like their downstream requests. */
const STEPS = ['refunds', 'bookings', 'letters'];
/** Number of concurrent requests for the refund. */
const PARALLEL_REQUESTS = 8;
/** Moments at which a worker dies: after every step, and once in the gap before a record. */
const DEATHS = ['refunds recorded', 'bookings done', 'bookings recorded', 'letters recorded'];

type Receipts = Record<string, string>;

async function makeRefund(task: Task<{ account: string }>, downstream: string, death: string): Promise<Receipts> {
  const dieAt = (moment: string): void => {
    if (moment === death) process.kill(process.pid, 'SIGKILL'); // no ending, no release, no heartbeat
  };
  const receipts: Receipts = { ...(task.lastStep?.data as Receipts | undefined) };
  const reached = task.lastStep === undefined ? 0 : STEPS.indexOf(task.lastStep.name) + 1;
  for (const step of STEPS.slice(reached)) {
    receipts[step] = await order(downstream, step, task.payload.account, `${task.itemId}:${step}`);
    dieAt(`${step} done`);
    await task.step(step, receipts);
    dieAt(`${step} recorded`);
  }
  return receipts;
}

/** Starts a worker as a program of its own. `ended` resolves to its signal or exit code. */
function clerk(name: string, downstream: string, death: string): { stop: () => void; ended: Promise<string | number | null> } {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), 'clerk', name, downstream, death], { stdio: 'inherit' });
  const ended = new Promise<string | number | null>((resolve) => child.on('exit', (code, signal) => resolve(signal ?? code)));
  return { stop: () => child.kill('SIGTERM'), ended };
}

function request(word: string, account: string) {
  const name = `order-${word}`;
  const items = [{ payload: { order: name, account } }];
  return { type: REFUND, name: `Refund of ${name}`, items, sealed: true, initiated_by: 'customer-17' };
}

async function refund(client: Client): Promise<string> {
  // A dead worker is detected after three missed heartbeats.
  await prepare(client, { name: REFUND, steps: STEPS, heartbeat_seconds: 0.4, max_failures: 20, require_idempotency_key: true });
  const word = newWord();
  const [key, asked] = [`refund-${word}-a`, request(`${word}-a`, 'ada')];
  const downstream = await Downstream.open();
  const made = await Promise.all(Array.from({ length: PARALLEL_REQUESTS }, () => client.createJob(asked, { key })));
  const root = made[0]?.id ?? '';
  expect(made.every((job) => job.id === root), 'one key makes one tree');
  const other = client.createJob({ ...asked, name: 'another' }, { key });
  await refused(other, 'idempotency_key_reused', 'another request under the same key');
  say(`${PARALLEL_REQUESTS} asked at once, one refund was made: ${page(client, root)}`);

  for (const [place, death] of DEATHS.entries()) {
    same(await clerk(`clerk-${place + 1}`, downstream.url, death).ended, 'SIGKILL', 'the clerk dies over the refund');
    say(`a worker died with ${death}`);
    same((await client.createJob(asked, { key })).id, root, 'it is still the same refund');
  }
  const last = clerk('the-last-clerk', downstream.url, '');
  try {
    const done = await complete(client, root);
    same(done.tree.outcome, 'succeeded', 'the refund is made');
    same((await client.createJob(asked, { key })).id, root, 'asked again, it is still the same refund');
    const effects = [...downstream.effects];
    same(effects.map((effect) => effect.what), STEPS, 'each step once, in order');
    expect(downstream.requests > effects.length, 'the one in the gap was asked for twice', downstream.requests);
    const item = await onlyItem(client, { root });
    const result = (await client.item(item.id)).result as Receipts;
    expect(effects.every((effect) => result[effect.what] === effect.receipt), 'the result has the receipts', result);
    const ends = (await attempts(client, item.id)).map((attempt) => attempt.ended_as);
    expect(ends.filter((end) => end === 'lease_lost').length >= DEATHS.length, 'every death was noticed', ends);
    say(`${ends.length} attempts, ${effects.length} effects`);
    await failsAndIsRequestedAgain(client, downstream, word);
  } finally {
    last.stop();
  }
  same(await last.ended, 0, 'the last clerk leaves');
  downstream.close();
  return `${DEATHS.length} workers died over a refund, and each of its ${STEPS.length} steps happened once`;
}

/** A refund that fails for good is a dead letter. The same request then creates a new tree in its place. */
async function failsAndIsRequestedAgain(client: Client, downstream: Downstream, word: string): Promise<void> {
  downstream.closed.add('bob');
  const [key, asked] = [`refund-${word}-b`, request(`${word}-b`, 'bob')];
  const failed = (await client.createJob(asked, { key })).id;
  same((await complete(client, failed)).tree.outcome, 'failed', 'nothing can be refunded to bob');
  const dead = await onlyItem(client, { root: failed, state: 'dead' });
  same(dead.last_error?.kind, 'downstream_refused', 'a dead letter says why');
  say(`a refund became a dead letter: ${dead.last_error?.message}`);

  downstream.closed.delete('bob');
  const instead = await client.createJob(asked, { key });
  same(instead.replay_of, failed, 'a failed refund is made anew');
  await refused(client.retry(dead.id), 'superseded', 'retrying what has a successor');
  same((await complete(client, instead.id)).tree.outcome, 'succeeded', 'bob has his money');
  same(downstream.effects.filter((effect) => effect.account === 'bob').length, STEPS.length, 'bob was refunded once');
  same((await client.job(failed)).superseded_by, instead.id, 'the failed refund names the one that took its place');
  say('asked for again with the same key, it was made anew and done');
}

const [, , command, name = '', downstream = '', death = ''] = process.argv;
if (command === 'clerk') {
  const handler = (task: Task<{ account: string }>): Promise<Receipts> => makeRefund(task, downstream, death);
  await new Worker(new Client(), { types: [REFUND], workerId: name }, handler).run({ signals: true });
} else {
  await run('refund', refund);
}
