import { hostname } from 'node:os';

import { Client, messageOf } from './client.js';
import { ApiError } from './errors.js';
import { errorOf, pauseOf, withoutDetail, type ReportedError } from './failures.js';
import { listen, type Wakes } from './rabbitmq.js';
import { backoff, deferred, isTransient, isTransientStatus, sleep, within } from './retry.js';
import type * as t from './schema.js';
import { Failure, Release, Task, Wait, type Handler, type Progress } from './task.js';

/** Seconds that a claim waits at the server for work. */
const CLAIM_WAIT = 20;
/** Seconds that a claim waits while RabbitMQ is configured but away. Wake-ups that arrive meanwhile wait as long. */
const CLAIM_WAIT_BESIDE = 5;
/** Seconds between two claims of its own while RabbitMQ wakes the worker. */
const LOOK_EVERY = 30;
/** Shortest time between two heartbeats of an assignment that has new progress, in seconds. */
const PROGRESS_EVERY = 1;
/** Seconds within which a heartbeat must be answered; less if the intervals are short. */
const HEARTBEAT_TIMEOUT = 10;
/** Intervals without an answer to a heartbeat after which a handler is stopped. A lease has three. */
const LOST_AFTER = 2.5;

export { Failure, Release, Task, Wait, type FailureOptions, type Handler, type WaitOptions } from './task.js';

export interface WorkerOptions {
  readonly types: readonly string[];
  /** Number of items held at once. Default: 1. */
  readonly concurrency?: number;
  readonly workerId?: string;
  /** Seconds for which a leaving worker waits for its handlers. Default: 30. */
  readonly drainSeconds?: number;
  /** Seconds that handlers of a leaving worker have to end after their signals were aborted, before it warns. Default: 5. */
  readonly graceSeconds?: number;
  /** Address of RabbitMQ, whose messages wake the worker. Needs the package `amqplib`. */
  readonly amqpUrl?: string;
  /** Receives what goes wrong on the way. Default: `console.warn`. */
  readonly warn?: (message: string) => void;
}

/**
 * Numbers of items by how they ended. `released`: given back without a failure, or waiting for an event. `lost`: another
 * worker has them, they were canceled, or the worker has left before it could report them.
 */
export interface Summary {
  succeeded: number;
  failed: number;
  released: number;
  lost: number;
}

interface Held {
  readonly assignment: t.Assignment;
  readonly stop: AbortController;
  readonly interval: number;
  due: number;
  answered: number;
  progress?: Progress | undefined;
  sent?: Progress | undefined;
  isLost: boolean;
  /** True when the handler has ended and its ending is being reported. */
  hasEnded: boolean;
  /** True after a heartbeat was refused: the next one has no progress. */
  isBare: boolean;
}

/** Error of an item that must not be released, because it is delivered at most once. */
const stopped = (): ReportedError => errorOf('The worker was stopped before the item was done.', 'worker_stopped');

type Ending = Record<string, unknown> & { assignment_id: string; error?: ReportedError };

const now = (): number => performance.now() / 1_000;

/**
 * Works on items of some job types. What the handler returns is the result; what it throws is the failure. The worker
 * sends heartbeats, repeats reports until the server has them, and, when it is stopped, finishes what it holds: it aborts
 * the signals of its handlers after `drainSeconds` and waits until each has ended, because its item must not begin elsewhere
 * before. An aborted handler's item is released, or a failure if it is delivered `at_most_once`.
 */
export class Worker<Payload = unknown> {
  readonly summary: Summary = { succeeded: 0, failed: 0, released: 0, lost: 0 };
  readonly #client: Client;
  readonly #handler: Handler<Payload>;
  readonly #options: Required<Omit<WorkerOptions, 'amqpUrl'>> & Pick<WorkerOptions, 'amqpUrl'>;
  readonly #held = new Map<string, Held>();
  readonly #stopping = new AbortController();
  /** Aborted when the worker has left: nothing is sent again. */
  readonly #over = new AbortController();
  /** Resolved by any change. */
  #changed = deferred();
  /** Resolved when a slot becomes free, or the worker must leave. */
  #freed = deferred();
  #leavesAtOnce = false;

  constructor(client: Client, options: WorkerOptions, handler: Handler<Payload>) {
    const workerId = options.workerId ?? `${hostname()}-${process.pid}`;
    const warn = (message: string): void => console.warn(message);
    this.#options = { concurrency: 1, drainSeconds: 30, graceSeconds: 5, workerId, warn, ...options };
    if (!Number.isInteger(this.#options.concurrency) || this.#options.concurrency < 1) {
      throw new RangeError('concurrency: expected a whole number from 1');
    }
    this.#client = client;
    this.#handler = handler;
  }

  /** Makes the worker leave. `atOnce`: it waits for no handler, whose leases then end. */
  stop({ atOnce = false }: { readonly atOnce?: boolean } = {}): void {
    this.#leavesAtOnce ||= atOnce;
    this.#stopping.abort();
    this.#freed.resolve();
    this.#touch();
  }

  /**
   * Works until `stop` is called, or, with `signals`, until SIGTERM or SIGINT arrives; at a second one, it leaves at once.
   * Returns the numbers of items.
   */
  async run(options: { readonly signals?: boolean } = {}): Promise<Summary> {
    const leave = (): void => this.stop({ atOnce: this.#stopping.signal.aborted });
    const names = options.signals === true ? (['SIGTERM', 'SIGINT'] as const) : [];
    for (const name of names) process.on(name, leave);
    const over = this.#over;
    const beats = Promise.allSettled([this.#beat(over.signal), this.#watchLeases(over.signal)]);
    const { amqpUrl, types, warn } = this.#options;
    const wakes = amqpUrl === undefined ? undefined : listen(amqpUrl, types, over.signal, warn);
    try {
      await this.#claim(wakes);
      await this.#drain();
    } finally {
      over.abort();
      this.#touch();
      await beats;
      for (const name of names) process.off(name, leave);
    }
    return this.summary;
  }

  #touch(): void {
    this.#changed.resolve();
    this.#changed = deferred();
  }

  async #claim(wakes: Wakes | undefined): Promise<void> {
    const { signal } = this.#stopping;
    const { types, workerId } = this.#options;
    for (let failures = 0, lookAt = 0; !signal.aborted; ) {
      this.#freed = deferred();
      const free = this.#options.concurrency - this.#held.size;
      if (free === 0) {
        await this.#freed.promise;
        continue;
      }
      const isWoken = wakes?.isAttached === true;
      const ids = isWoken ? await wakes.take(free, lookAt - now(), this.#freed.promise) : [];
      if (signal.aborted) return;
      if (ids.length === 0) lookAt = now() + LOOK_EVERY;
      const wait = wakes === undefined ? CLAIM_WAIT : CLAIM_WAIT_BESIDE;
      const claimId = crypto.randomUUID();
      const body = {
        worker_id: workerId,
        types: ids.length > 0 ? [] : types,
        claim_id: claimId,
        max: Math.min(ids.length > 0 ? ids.length : free, 1_000),
        ...(ids.length > 0 ? { item_ids: ids } : {}),
        ...(isWoken ? {} : { wait_seconds: wait }),
      };
      try {
        const { assignments } = await this.#client.request<t.ClaimResponse>('POST', '/assignments', { body, idempotent: true, signal });
        failures = 0;
        // There may be more where these came from.
        if (assignments.length > 0) lookAt = 0;
        for (const assignment of assignments) void this.#work(assignment);
      } catch (cause) {
        if (signal.aborted) return this.#takeBack(claimId);
        if (cause instanceof ApiError && [400, 401, 403, 422].includes(cause.status)) throw cause;
        failures += 1;
        this.#options.warn(messageOf(cause));
        await sleep(backoff(failures), signal).catch(() => undefined);
      }
    }
  }

  /** Ends a claim that may still wait at the server, and gives back what it has taken. */
  async #takeBack(claimId: string): Promise<void> {
    // It names no items: it takes nothing, and so does a request with this id that is still on its way.
    const body = { worker_id: this.#options.workerId, types: [], item_ids: [], claim_id: claimId };
    try {
      const { assignments } = await this.#client.request<t.ClaimResponse>('POST', '/assignments', { body, idempotent: true });
      for (const { id } of assignments) await this.#release({ assignment_id: id });
    } catch (cause) {
      this.#options.warn(messageOf(cause));
    }
  }

  async #work(assignment: t.Assignment): Promise<void> {
    const at = now();
    const interval = assignment.heartbeat_seconds;
    const stop = new AbortController();
    const held: Held = { assignment, stop, interval, due: at + interval, answered: at, isLost: false, isBare: false, hasEnded: false };
    this.#held.set(assignment.id, held);
    this.#touch();
    const task = new Task<Payload>(assignment, this.#client, stop.signal, (progress) => {
      held.progress = progress;
      this.#touch();
    });
    const ending: Ending = { assignment_id: assignment.id };
    try {
      ending['result'] = (await this.#handler(task)) ?? {};
    } catch (cause) {
      this.#describe(ending, cause, held);
    }
    held.hasEnded = true;
    this.#touch();
    if (this.#over.signal.aborted) return;
    if (held.isLost) this.summary.lost += 1;
    else if ('release' in ending) await this.#release(ending);
    else if ('wait' in ending) await this.#wait(ending);
    else await this.#finish(ending);
    this.#held.delete(assignment.id);
    this.#freed.resolve();
    this.#touch();
  }

  #describe(ending: Ending, cause: unknown, { assignment, stop: { signal } }: Held): void {
    if (cause instanceof Release) {
      ending['release'] = pauseOf(cause.retryAfterSeconds);
    } else if (signal.aborted && (cause === signal.reason || (cause instanceof Error && cause.name === 'AbortError'))) {
      if (assignment.item.delivery === 'at_most_once') ending.error = stopped();
      else ending['release'] = undefined;
    } else if (cause instanceof Wait) {
      const { timeoutSeconds, form } = cause.options;
      ending['wait'] = { name: cause.event, timeout_seconds: timeoutSeconds, form };
    } else if (cause instanceof Failure) {
      const { kind, detail, retryable = true, retryAfterSeconds, cancelTree = false } = cause.options;
      ending.error = errorOf(cause.message, kind, detail);
      Object.assign(ending, { retryable, cancel_tree: cancelTree, retry_after_seconds: pauseOf(retryAfterSeconds) });
    } else {
      const kind = cause instanceof Error ? cause.name : 'Error';
      ending.error = errorOf(messageOf(cause) || kind, kind);
    }
  }

  async #release(ending: Ending): Promise<void> {
    const body = ending['release'] === undefined ? {} : { retry_after_seconds: ending['release'] };
    try {
      await this.#client.request('POST', `/assignments/${ending.assignment_id}/release`, { body, idempotent: true, signal: this.#over.signal });
      this.summary.released += 1;
    } catch (cause) {
      if (cause instanceof ApiError && cause.code === 'already_started') {
        return this.#finish({ assignment_id: ending.assignment_id, error: stopped() });
      }
      this.#options.warn(`an item could not be given back: ${messageOf(cause)}`);
      this.summary.lost += 1;
    }
  }

  async #wait({ assignment_id, wait: body }: Ending): Promise<void> {
    const { signal } = this.#over;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.#client.request('POST', `/assignments/${assignment_id}/wait`, { body, idempotent: true, signal });
        this.summary.released += 1;
        return;
      } catch (cause) {
        if (signal.aborted) return;
        const status = cause instanceof ApiError ? cause.status : 0;
        if ([404, 409, 410].includes(status)) {
          this.#options.warn(`assignment ${assignment_id} was over: ${messageOf(cause)}`);
          this.summary.lost += 1;
          return;
        }
        if (!isTransient(cause)) {
          // A wait that the server does not take, such as one with a wrong form, fails the same way every time.
          const message = `The wait was refused: ${messageOf(cause)}`.slice(0, 1_000);
          return this.#finish({ assignment_id, error: errorOf(message), retryable: false });
        }
        failures += 1;
        this.#options.warn(messageOf(cause));
        await this.#pause(failures);
      }
    }
  }

  /** Waits before a report is sent again, until the worker has left. */
  async #pause(failures: number): Promise<void> {
    await sleep(backoff(failures), this.#over.signal).catch(() => undefined);
  }

  async #finish(ending: Ending): Promise<void> {
    const { signal } = this.#over;
    for (let failures = 0; !signal.aborted; ) {
      try {
        const { endings } = await this.#client.request<t.FinishResponse>('POST', '/assignments/finish', {
          body: { endings: [ending] },
          idempotent: true,
          signal,
        });
        const answer = endings[0];
        const status = answer?.status ?? 0;
        if (status === 0 || isTransientStatus(status)) {
          failures += 1;
          await this.#pause(failures);
          continue;
        }
        if (![200, 404, 409, 410].includes(status)) {
          const [error] = answer?.errors ?? [];
          const why = `${status} ${answer?.code}${error === undefined ? '' : ` at ${error.pointer}: ${error.detail}`}`;
          if (this.#refuse(ending, why)) continue;
          return;
        }
        if (status !== 200) {
          this.#options.warn(`assignment ${ending.assignment_id} was over: ${answer?.code}`);
          this.summary.lost += 1;
        } else if ('error' in ending) this.summary.failed += 1;
        else this.summary.succeeded += 1;
        return;
      } catch (cause) {
        if (signal.aborted) return;
        if (isTransient(cause)) {
          // Not a refusal, however long it lasts: the result is sent until the server has it.
          failures += 1;
          this.#options.warn(messageOf(cause));
          await this.#pause(failures);
        } else if (!this.#refuse(ending, messageOf(cause))) return;
      }
    }
  }

  /**
   * Makes a result that the server does not take a failure, which no retry heals, and takes the detail from a failure.
   * False: there is nothing else to send.
   */
  #refuse(ending: Ending, why: string): boolean {
    this.#options.warn(`the ending of assignment ${ending.assignment_id} was refused: ${why}`);
    if (ending.error === undefined) {
      delete ending['result'];
      Object.assign(ending, { error: errorOf(`The result was refused: ${why}`.slice(0, 1_000)), retryable: false });
      return true;
    }
    if ('detail' in ending.error) {
      ending.error = withoutDetail(ending.error, why);
      return true;
    }
    this.summary.lost += 1;
    return false;
  }

  async #beat(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const at = now();
      const held = [...this.#held.values()].filter((one) => !one.isLost);
      const hasNews = (one: Held): boolean => !one.isBare && one.progress !== one.sent;
      const dueAt = (one: Held): number => (hasNews(one) ? Math.min(one.due, one.due - one.interval + PROGRESS_EVERY) : one.due);
      const due = held.filter((one) => dueAt(one) <= at);
      if (due.length > 0) {
        await this.#sendBeats(due);
        continue;
      }
      const next = Math.min(at + 60, ...held.map(dueAt));
      await within(Math.max(0.05, next - at), this.#changed.promise);
    }
  }

  /** Stops handlers whose heartbeats are not answered, also while one is on its way. */
  async #watchLeases(over: AbortSignal): Promise<void> {
    const lostAt = (one: Held): number => one.answered + LOST_AFTER * one.interval;
    while (!over.aborted) {
      const at = now();
      const held = [...this.#held.values()].filter((one) => !one.isLost);
      for (const one of held.filter((one) => lostAt(one) <= at)) {
        this.#options.warn(`no heartbeat of item ${one.assignment.item.id} was answered; stopping`);
        this.#lose(one);
      }
      const next = Math.min(at + 60, ...held.filter((one) => !one.isLost).map(lostAt));
      await within(Math.max(0.01, next - at), this.#changed.promise);
    }
  }

  async #sendBeats(due: readonly Held[]): Promise<void> {
    const at = now();
    const progress = due.map((one) => (one.isBare ? undefined : one.progress));
    const heartbeats = due.map(({ assignment }, place) => {
      const said = progress[place];
      return { assignment_id: assignment.id, ...(said && { progress: said }) };
    });
    try {
      const answer = await this.#client.request<t.HeartbeatsResponse>('POST', '/assignments/heartbeat', {
        body: { heartbeats },
        idempotent: true,
        retryTimeout: 0,
        timeout: Math.min(HEARTBEAT_TIMEOUT, ...due.map((one) => one.interval / 2)),
        signal: this.#over.signal,
      });
      answer.heartbeats.forEach((beat, place) => {
        const held = due[place];
        if (held === undefined) return;
        if ([404, 409, 410].includes(beat.status)) return this.#lose(held);
        if (beat.status !== 200) {
          this.#options.warn(`a heartbeat of item ${held.assignment.item.id} was refused: ${JSON.stringify(beat.errors)}`);
          return this.#beatFailed(held, progress[place], !isTransientStatus(beat.status));
        }
        [held.due, held.answered, held.sent, held.isBare] = [at + held.interval, at, progress[place], false];
        if (beat.cancel === true) held.stop.abort();
      });
    } catch (cause) {
      this.#options.warn(messageOf(cause));
      due.forEach((held, place) => this.#beatFailed(held, progress[place], !isTransient(cause)));
      await sleep(0.1);
    }
  }

  #beatFailed(held: Held, progress: Progress | undefined, isRefusal: boolean): void {
    const at = now();
    if (!isRefusal || progress === undefined) {
      held.due = at + Math.min(1, held.interval / 4);
      return;
    }
    // Progress that the server does not take must not cost the lease: one heartbeat goes at once without it.
    [held.due, held.isBare] = [at, true];
    if (held.progress === progress) held.progress = undefined;
  }

  #lose(held: Held): void {
    held.isLost = true;
    held.stop.abort();
    this.#touch();
  }

  async #drain(): Promise<void> {
    await this.#empty(this.#options.drainSeconds);
    for (const held of this.#held.values()) held.stop.abort();
    await this.#empty(this.#options.graceSeconds);
    const running = (): number => [...this.#held.values()].filter((held) => !held.hasEnded && !held.isLost).length;
    if (running() > 0 && !this.#leavesAtOnce) {
      this.#options.warn(`${running()} handlers have not stopped; the worker waits for them, until a second signal`);
    }
    // Their items stay with this worker: nobody else may begin them meanwhile.
    while (running() > 0 && !this.#leavesAtOnce) await this.#changed.promise;
    await this.#empty(10);
    this.summary.lost += this.#held.size;
  }

  async #empty(seconds: number): Promise<void> {
    const deadline = now() + seconds;
    while (this.#held.size > 0 && !this.#leavesAtOnce && now() < deadline) {
      await within(Math.max(0.01, deadline - now()), this.#changed.promise);
    }
  }
}
