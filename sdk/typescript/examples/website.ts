// Site: one complex job as parallel and sequential tasks.
//
// Metadata, files and database are created in parallel, the site is set up after its database, and a last task runs after
// all others. Tasks are retried without limit; a person repairs an item that no retry can fix, and the tree continues. An
// abandoned site is canceled, deleted, and created again under the same name: no late task can affect the new one.
import { ApiError, type Assignment, type Client, type NewJob } from '@treeline/client';
import { Failure, type Task } from '@treeline/client/worker';

import { barrier, Broken, claim, collect, complete, expect, find, newWord, notRetryable, onlyItem, page, prepare, refused, run, same, say, working } from './scenario.js';

const [METADATA, FILES, DATABASE, BOOTSTRAP, FINISH] = ['site.metadata', 'site.files', 'site.database', 'site.bootstrap', 'site.finish'] as const;
/** Tasks that run in parallel. */
const PARALLEL: readonly string[] = [METADATA, FILES, DATABASE];
const TASKS: readonly string[] = [...PARALLEL, BOOTSTRAP, FINISH];
/** Number of failures before saving metadata succeeds. */
const STUMBLES = 2;

interface Site { readonly domain: string; readonly database: string }

/** The platform of the sites, which records the order of the tasks. */
class Platform {
  readonly done: (readonly [root: string, type: string])[] = [];
  /** Opens when all three parallel tasks are running. */
  readonly #together = barrier(PARALLEL.length);

  readonly build = async (task: Task<Site>): Promise<unknown> => {
    const { type, root_id: root } = task.assignment.item;
    const site = task.payload;
    if (PARALLEL.includes(type) && task.attempt === 1) await this.#together();
    if (type === METADATA && task.attempt <= STUMBLES) throw new Failure('the registry is busy', { kind: 'busy' });
    if (type === DATABASE && site.database.includes('-')) throw notRetryable(`"${site.database}" cannot name a database`, 'bad_name');
    const ready = Object.keys(task.assignment.inputs ?? {}).length;
    if (type === FINISH && ready !== TASKS.length - 1) throw notRetryable(`only ${ready} parts are ready`, 'too_early');
    this.done.push([root, type]);
    return type === FINISH ? { domain: site.domain, state: 'running' } : { made: type };
  };

  doneFor(root: string): string[] {
    return this.done.filter(([of]) => of === root).map(([, type]) => type);
  }
}

/** The tree of a site; its dedupe key makes the name unique. */
function tree(name: string, database: string): NewJob {
  const site: Site = { domain: `${name}.example`, database };
  const task = (type: string, key: string, ...after: string[]) => ({ type, key, items: [{ payload: site }], sealed: true, after });
  const children = [
    task(METADATA, 'metadata'),
    task(FILES, 'files'),
    task(DATABASE, 'create-db'),
    task(BOOTSTRAP, 'bootstrap', 'create-db'),
    { ...task(FINISH, 'finish', 'metadata', 'files', 'create-db', 'bootstrap'), final_stage: true },
  ];
  return { type: 'site', name: site.domain, dedupe_key: site.domain, sealed: true, children: children as NonNullable<NewJob['children']> };
}

async function site(client: Client): Promise<string> {
  const backoff = { min_seconds: 0.05, max_seconds: null, factor: 2, jitter: false };
  await prepare(client, { name: 'site' }, ...TASKS.map((name) => ({ name, max_failures: 'unlimited', backoff })));
  const [platform, word] = [new Platform(), newWord()];
  const builders = { types: TASKS, concurrency: 4, workerId: 'builders' };
  await working(client, builders, platform.build, () => diesAndIsRepaired(client, platform, `shop-${word}`));
  const [givenUp, late] = await isGivenUp(client, `blog-${word}`);
  await client.request('DELETE', `/jobs/${givenUp}`);
  await refused(client.job(givenUp), 'job_removed', 'reading what was deleted');
  const anew = (await client.createJob(tree(`blog-${word}`, 'blog'))).id;
  const [done] = await working(client, builders, platform.build, async () => {
    await lateResult(client, late);
    return complete(client, anew);
  });
  same(done.tree.outcome, 'succeeded', 'the new one runs');
  same([platform.doneFor(anew).length, platform.doneFor(givenUp).length], [TASKS.length, 0], 'it was built alone');
  say(`blog-${word} was deleted and made anew: ${page(client, anew)}`);
  return 'two sites run: one was repaired on the way, one was given up and made anew';
}

async function diesAndIsRepaired(client: Client, platform: Platform, name: string): Promise<void> {
  const root = (await client.createJob(tree(name, name))).id;
  say(`${name} is being built: ${page(client, root)}`);
  const stuck = await complete(client, root);
  same(stuck.tree.outcome, 'partial', 'it cannot be finished');
  for (const key of ['bootstrap', 'finish']) {
    same((await onlyItem(client, { job: find(stuck, key).id })).state, 'cancelled', `${key} did not run`);
  }
  const dead = await onlyItem(client, { job: find(stuck, 'create-db').id });
  same([dead.state, dead.last_error?.kind], ['dead', 'bad_name'], 'create-db died');
  say('create-db died, and what waited for it was called off');

  const payload: Site = { domain: `${name}.example`, database: name.replaceAll('-', '_') };
  await client.retry(dead.id, { payload, reason: 'a hyphen in the name of the database' });
  const done = await complete(client, root);
  same([done.tree.outcome, done.completion], ['succeeded', 2], 'it runs');
  say('a person mended it, and the tree finished');
  const order = platform.doneFor(root);
  same(order.toSorted(), [...TASKS].sort(), 'each task was done once');
  expect(order.indexOf(DATABASE) < order.indexOf(BOOTSTRAP) && order.at(-1) === FINISH, 'in this order', order);
  const metadata = await onlyItem(client, { job: find(done, 'metadata').id });
  same([metadata.failures, metadata.attempts], [STUMBLES, STUMBLES + 1], 'tried until it worked');
  const results = (await collect(client.results(root))).map((line) => (line.result as { state?: string }).state);
  same(results, ['running'], 'the result of the tree is that of its last stage alone');
}

/** A tree canceled while three tasks run waits for their workers, and refuses their results. */
async function isGivenUp(client: Client, name: string): Promise<[string, Assignment]> {
  const asked = tree(name, 'blog');
  const root = (await client.createJob(asked)).id;
  const taken = await refused(client.createJob(asked), 'duplicate', 'the same site a second time');
  same(taken.problem['id'], root, 'the refusal names the one that is there');
  const [first, second, late] = await claim(client, PARALLEL);
  expect(first !== undefined && second !== undefined && late !== undefined, 'three tasks are handed out');
  const cancelled = await client.cancel(root, 'the customer went away');
  same(cancelled.tree.status, 'cancelling', 'three tasks still run');
  same(await claim(client, TASKS), [], 'nothing of it is handed out anymore');
  await refused(client.request('DELETE', `/jobs/${root}`), 'job_not_complete', 'deleting what still runs');
  say(`${name} is given up: ${cancelled.message}`);

  const beat = await client.request<{ cancel?: boolean }>('POST', `/assignments/${first.id}/heartbeat`, { body: {}, idempotent: true });
  same(beat.cancel, true, 'a worker learns it from its next heartbeat');
  for (const { id } of [first, second]) await client.request('POST', `/assignments/${id}/release`, { body: {}, idempotent: true });
  same((await client.job(root)).tree.status, 'cancelling', 'one is still waited for');
  const ended = client.request('POST', `/assignments/${late.id}/result`, { body: { result: 'too late' }, idempotent: true });
  await refused(ended, 'job_cancelled', 'a result that comes late');
  same((await complete(client, root)).tree.outcome, 'cancelled', 'nothing runs anymore');
  say('its last worker is gone, and what that brought was refused');
  return [root, late];
}

async function lateResult(client: Client, late: Assignment): Promise<void> {
  try {
    await client.request('POST', `/assignments/${late.id}/result`, { body: { result: 1 }, idempotent: true });
  } catch (cause) {
    expect(cause instanceof ApiError && [404, 409, 410].includes(cause.status), 'a late task is refused', String(cause));
    return;
  }
  throw new Broken('a late task reached a deleted tree');
}

await run('site', site);
