// Helpers of the five examples: checks, waiting, and workers.
//
// An example submits work, processes it, causes failures, and checks every promise that it describes; the first broken
// promise is its error. It waits for events, never for an amount of time.
import { randomBytes } from 'node:crypto';

import { ApiError, Client, type Assignment, type Item, type Job } from '@treeline/client';
import { Failure, Worker, type Handler, type Summary, type WorkerOptions } from '@treeline/client/worker';

/** Longest wait for any event of an example, in seconds. */
const TIMEOUT = 120;

/** A promise that was not kept. */
export class Broken extends Error {}

export function expect(kept: boolean, promise: string, found?: unknown): asserts kept {
  if (!kept) throw new Broken(found === undefined ? promise : `${promise}: ${JSON.stringify(found)}`);
}

export function same(found: unknown, wanted: unknown, promise: string): void {
  expect(JSON.stringify(found) === JSON.stringify(wanted), promise, found);
}

export const say = (line: string): void => console.log(`  ${line}`);

/** A unique word, for keys that must be new. */
export const newWord = (): string => randomBytes(4).toString('hex');

/** Awaits a call that must fail with this code. */
export async function refused(call: Promise<unknown>, code: string, what: string): Promise<ApiError> {
  try {
    await call;
  } catch (cause) {
    expect(cause instanceof ApiError && cause.code === code, `${what}: expected ${code}`, String(cause));
    return cause;
  }
  throw new Broken(`${what}: expected ${code}, but it was done`);
}

export type TypeSpec = Readonly<Record<string, unknown>> & { readonly name: string };

/** Creates the job types, and cancels our trees that an interrupted run left behind. */
export async function prepare(client: Client, ...types: readonly TypeSpec[]): Promise<void> {
  const me = (await client.me()).name;
  for (const spec of types) {
    await client.putJobType(spec.name, spec);
    for (const status of ['waiting', 'running']) {
      for await (const job of client.jobs({ root: true, status, type: spec.name })) {
        if (job.owner.name === me) await cancelIfOpen(client, job.id);
      }
    }
  }
}

async function cancelIfOpen(client: Client, id: string): Promise<void> {
  try {
    await client.cancel(id, 'left by an interrupted run');
  } catch (cause) {
    if (!(cause instanceof ApiError) || cause.code !== 'job_completed') throw cause;
  }
}

/** Waits until a tree is complete. */
export const complete = (client: Client, root: string): Promise<Job> =>
  client.wait(root, { signal: AbortSignal.timeout(TIMEOUT * 1_000) });

/** Waits until a job with everything below it satisfies a condition. */
export async function until(client: Client, root: string, isReached: (job: Job) => boolean): Promise<Job> {
  for await (const state of client.watch(root, { signal: AbortSignal.timeout(TIMEOUT * 1_000) })) {
    if (isReached(state)) return state;
  }
  throw new Broken('the job completed too early');
}

/** The job of a key in a tree. */
export function find(tree: Job, key: string): Job {
  const jobs = [tree];
  for (const job of jobs) {
    if (job.key === key) return job;
    jobs.push(...(job.children ?? []));
  }
  throw new Broken(`there is no job ${key} in the tree`);
}

export async function collect<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of values) all.push(value);
  return all;
}

/** The only item that a filter finds. */
export async function onlyItem(client: Client, filter: Readonly<Record<string, string>>): Promise<Item> {
  const [item, ...more] = await collect(client.items(filter));
  expect(item !== undefined && more.length === 0, 'expected one item', more.length);
  return item;
}

/** Endings and times of the attempts at an item. */
export async function attempts(client: Client, item: string): Promise<{ ended_as: string; started_at: string }[]> {
  return (await client.request<{ data: { ended_as: string; started_at: string }[] }>('GET', `/items/${item}/attempts`)).data;
}

/** Address of a tree's page, for people. */
export const page = (client: Client, root: string): string => `${client.url}/jobs/${root}`;

/** Claims items without a worker loop. */
export async function claim(client: Client, types: readonly string[], max = 10): Promise<Assignment[]> {
  const body = { worker_id: 'somebody-slow', types, max, claim_id: crypto.randomUUID() };
  return (await client.request<{ assignments: Assignment[] }>('POST', '/assignments', { body, idempotent: true })).assignments;
}

/** Runs a worker as long as a function runs. */
export async function working<Payload, T>(
  client: Client,
  options: WorkerOptions,
  handler: Handler<Payload>,
  during: () => Promise<T>,
): Promise<[T, Summary]> {
  const worker = new Worker<Payload>(client, options, handler);
  const running = worker.run();
  let result: T;
  try {
    result = await during();
  } finally {
    worker.stop();
  }
  return [result, await running];
}

/** A failure that no retry can fix. */
export const notRetryable = (message: string, kind: string): Failure => new Failure(message, { kind, retryable: false });

/** A gate that opens when `count` callers have arrived, again and again. Resolves to true for one of them. */
export function barrier(count: number): () => Promise<boolean> {
  let waiting: (() => void)[] = [];
  return async () => {
    if (waiting.length === count - 1) {
      for (const open of waiting) open();
      waiting = [];
      return true;
    }
    await new Promise<void>((open) => waiting.push(open));
    return false;
  };
}

/** Runs an example against the server in the environment: `TREELINE_URL`, `TREELINE_TOKEN`. */
export async function run(name: string, scenario: (client: Client) => Promise<string>): Promise<void> {
  console.log(name);
  try {
    console.log(await scenario(new Client()));
  } catch (cause) {
    console.error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`);
    process.exitCode = 1;
  }
}
