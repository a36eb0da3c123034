// Invoices: one item each, under ids of the caller; with a cap, attempts, times, at most once, and a replay.
//
// Every invoice is put twice and is there once. A type limits how many run at once. One invoice must not go out before its
// time, one expires, one dies in an outage and is replayed. A card is charged at most once.
import type { Client, Job, NewJob } from '@treeline/client';
import { Failure, type Task } from '@treeline/client/worker';

import { Downstream, order } from './downstream.js';
import { attempts, barrier, claim, complete, expect, notRetryable, onlyItem, prepare, refused, run, same, say, working } from './scenario.js';

const [INVOICE, CHARGE] = ['invoice', 'charge'] as const;
const INVOICES = 20;
/** Maximum number of invoices at once. */
const CAP = 5;
const ATTEMPTS = 3;
/** Downstream account of the invoices. */
const ACCOUNT = 'invoices';

interface Shipment { readonly shipment: string }

/** The office that sends invoices. */
class Office {
  /** Shipments with problems: away for two attempts, away until the outage ends, and returned. */
  readonly troubles = new Map([['shp_3', 'busy'], ['shp_7', 'outage'], ['shp_11', 'returned']]);
  /** Number of items assigned while five were running; must stay 0. */
  beyond = 0;
  #entered = 0;
  /** The first five meet here. */
  readonly #full = barrier(CAP);

  constructor(readonly client: Client, readonly downstream: Downstream) {}

  readonly invoice = async (task: Task<Shipment>): Promise<string> => {
    this.#entered += 1;
    if (this.#entered <= CAP) await this.#askForMore();
    const trouble = this.troubles.get(task.payload.shipment);
    if (trouble === 'outage' || (trouble === 'busy' && task.attempt <= 2)) throw new Failure('downstream is away', { kind: 'downstream_away' });
    if (trouble === 'returned') throw notRetryable('it came back', 'returned');
    return order(this.downstream.url, 'invoices', ACCOUNT, task.itemId);
  };

  /** The first five wait for each other. While all of them are under way, one asks for more. */
  async #askForMore(): Promise<void> {
    if (await this.#full()) this.beyond += (await claim(this.client, [INVOICE])).length;
    await this.#full();
  }
}

/** Creates an invoice under an id from here, and repeats the request as after a lost response. */
async function put(client: Client, shipment: string, fields: Partial<NewJob> = {}): Promise<Job> {
  const job = { ...fields, type: INVOICE, id: crypto.randomUUID(), name: shipment, items: [{ payload: { shipment } }], sealed: true };
  await client.createJob(job);
  const again = await client.createJob(job);
  same(again.id, job.id, `${shipment} is there once`);
  await refused(client.createJob({ ...job, name: 'another' }), 'id_in_use', 'another invoice under its id');
  return again;
}

const after = (now: string, seconds: number): string => new Date(Date.parse(now) + seconds * 1_000).toISOString();

async function invoices(client: Client): Promise<string> {
  const backoff = { min_seconds: 0.05, max_seconds: 1, factor: 2, jitter: false };
  await prepare(
    client,
    { name: INVOICE, concurrency: CAP, max_failures: ATTEMPTS, backoff, heartbeat_seconds: 5 },
    // A lost worker is detected after three missed heartbeats.
    { name: CHARGE, delivery: 'at_most_once', heartbeat_seconds: 0.3 },
  );
  await isChargedAtMostOnce(client);
  const downstream = await Downstream.open();
  const office = new Office(client, downstream);
  // Times come from the server, because the clock of this machine may differ.
  const first = await put(client, 'shp_1');
  const later = (await put(client, 'shp_later', { run_after: after(first.created_at, 4) })).id;
  same((await onlyItem(client, { root: later })).state, 'scheduled', 'it waits for its time');
  const expired = await goesOutTooLate(client, after(first.created_at, 2));
  const trees = new Map([['shp_1', first.id]]);
  for (let n = 2; n <= INVOICES; n += 1) trees.set(`shp_${n}`, (await put(client, `shp_${n}`)).id);
  const treeOf = (shipment: string): string => trees.get(shipment) ?? '';
  say(`${INVOICES} invoices are put, every one twice, under ids of our own`);

  const options = { types: [INVOICE], concurrency: 3 * CAP, workerId: 'invoice-office' };
  const [invoiced] = await working(client, options, office.invoice, async () => {
    let sent = 0;
    for (const [shipment, root] of trees) {
      const wanted = ['outage', 'returned'].includes(office.troubles.get(shipment) ?? '') ? 'failed' : 'succeeded';
      same((await complete(client, root)).tree.outcome, wanted, shipment);
      if (wanted === 'succeeded') sent += 1;
    }
    same(office.beyond, 0, 'nothing was handed out beyond the cap');
    expect(downstream.mostAtOnce(ACCOUNT) <= CAP, 'the cap holds downstream', downstream.mostAtOnce(ACCOUNT));
    say(`${sent} are out; while ${CAP} were under way, nobody was given another`);
    for (const [shipment, ...numbers] of [['shp_3', 2, 3], ['shp_7', ATTEMPTS, ATTEMPTS], ['shp_11', 1, 1]] as const) {
      const item = await onlyItem(client, { root: treeOf(shipment) });
      same([item.failures, item.attempts], numbers, `failures and attempts of ${shipment}`);
    }
    await notBeforeItsTime(client, later);
    office.troubles.delete('shp_7');
    await isReplayed(client, treeOf('shp_7'), expired);
    return sent;
  });
  downstream.close();
  return `${invoiced + 2} shipments invoiced, at most ${downstream.mostAtOnce(ACCOUNT)} at once; one card charged at most once`;
}

/** An invoice that expires, because no worker runs yet. */
async function goesOutTooLate(client: Client, expires_at: string): Promise<string> {
  const root = (await put(client, 'shp_late', { expires_at })).id;
  await complete(client, root);
  const item = await onlyItem(client, { root });
  same([item.state, item.attempts], ['expired', 0], 'nobody was given it, and it expired');
  say('an invoice that nobody sent before its time was up has expired');
  return root;
}

async function notBeforeItsTime(client: Client, root: string): Promise<void> {
  same((await complete(client, root)).tree.outcome, 'succeeded', 'it went out');
  const item = await onlyItem(client, { root });
  const [attempt] = await attempts(client, item.id);
  expect(Date.parse(attempt?.started_at ?? '') >= Date.parse(item.run_after ?? ''), 'it did not go out before its time', item);
  say('the invoice that had to wait went out when its time had come');
}

/** A worker claims a card and disappears. */
async function isChargedAtMostOnce(client: Client): Promise<void> {
  const root = (await client.createJob({ type: CHARGE, items: [{ payload: { shipment: 'shp_1' } }], sealed: true })).id;
  const [card] = await claim(client, [CHARGE]);
  same((await complete(client, root)).tree.outcome, 'failed', 'nobody can say if it was charged');
  const item = await onlyItem(client, { root });
  same([item.state, item.last_error?.kind], ['dead', 'outcome_unknown'], 'it says so');
  same(await claim(client, [CHARGE]), [], 'it is not handed out again');
  const late = client.request('POST', `/assignments/${card?.id}/result`, { body: { result: {} }, idempotent: true });
  await refused(late, 'assignment_closed', 'a stale result');
  say('a card was taken by a worker that went away: charged once or not at all, and never again');
}

/** After the outage, the dead tree is replayed and succeeds; a replay of the expired one expires again. */
async function isReplayed(client: Client, dead: string, expired: string): Promise<void> {
  const replay = async (root: string, reason: string): Promise<Job> => {
    const headers = { 'Idempotency-Key': crypto.randomUUID() };
    const made = await client.request<Job>('POST', `/jobs/${root}/replay`, { body: { reason }, headers });
    same(made.replay_of, root, 'a new tree');
    return complete(client, made.id);
  };
  const again = await onlyItem(client, { root: (await replay(expired, 'by mistake')).id });
  same([again.state, again.attempts], ['expired', 0], 'it has still expired');
  same((await replay(dead, 'the outage is over')).tree.outcome, 'succeeded', 'this time it went out');
  same((await client.job(dead)).tree.outcome, 'failed', 'what happened then stays as it was');
  say('the outage is over: the dead invoice was replayed and went out, the expired one stays expired');
}

await run('invoices', invoices);
