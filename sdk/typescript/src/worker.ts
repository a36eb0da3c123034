import { hostname } from 'node:os';

import { Assigned, now } from './assignment.js';
import { Client, messageOf } from './client.js';
import { ApiError, UnexpectedResponse } from './errors.js';
import { errorOf, pauseOf, withoutContent, withoutDetail, type Ending, type ReportedError } from './failures.js';
import { listen, type Wakes } from './rabbitmq.js';
import { deferred, isForeign, isRefusal, isTransientStatus, isUnanswered, pauseAfter, sleep, within } from './retry.js';
import type * as t from './schema.js';
import { Failure, Release, Task, Wait, type Handler, type Progress } from './task.js';

/** Seconds that a claim waits at the server for work. */
const CLAIM_WAIT = 20;
/** Seconds that a claim waits while RabbitMQ is configured but away. Wake-ups that arrive meanwhile go to other workers. */
const CLAIM_WAIT_BESIDE = 5;
/** Seconds between two claims of its own while RabbitMQ wakes the worker. */
const LOOK_EVERY = 30;
/** Most wake-ups of a job type that a worker has at once. */
const MOST_WAKES = 1_000;
/** Seconds within which a heartbeat must be answered; less if the intervals are short. */
const HEARTBEAT_TIMEOUT = 10;
/** Seconds within which a leaving worker learns what its last claim has taken. */
const LAST_CLAIM_TIMEOUT = 2;
/** Most seconds before an ending is reported again. */
const LONGEST_REPORT_PAUSE = 30;
/** Statuses of a refusal that is about the caller: it says nothing about the content of a report. */
const CALLER_REFUSED = [401, 403, 421];

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

/** Error of an item that must not be released, because it is delivered at most once. */
const stopped = (): ReportedError => errorOf('The worker was stopped before the item was done.', 'worker_stopped');

/**
 * Works on items of some job types. What the handler returns is the result; what it throws is the failure. The worker
 * sends heartbeats, repeats reports until Treeline has answered, and, when it is stopped, finishes what it holds: it aborts
 * the signals of its handlers after `drainSeconds` and waits until each has ended, because its item must not begin elsewhere
 * before. An aborted handler's item is released, or a failure if it is delivered `at_most_once`. A report is given up only
 * when Treeline says that the assignment is closed. If something on the way refuses only the report, for the length of a
 * lease while heartbeats are answered, it becomes a failure without its content (`answer_refused`).
 */
export class Worker<Payload = unknown> {
  readonly summary: Summary = { succeeded: 0, failed: 0, released: 0, lost: 0 };
  readonly #client: Client;
  readonly #handler: Handler<Payload>;
  readonly #options: Required<Omit<WorkerOptions, 'amqpUrl'>> & Pick<WorkerOptions, 'amqpUrl'>;
  readonly #held = new Map<string, Assigned>();
  readonly #stopping = new AbortController();
  /** Aborted when the worker has left: nothing is sent again. */
  readonly #over = new AbortController();
  /** Resolved by any change. */
  #changed = deferred();
  /** Resolved when a slot becomes free, or the worker must leave. */
  #freed = deferred();
  #leavesAtOnce = false;
  /** Aborted when a leaving worker no longer wants to know what its last claim has taken. */
  readonly #takingBack = new AbortController();
  /** Id of the claim that has no answer yet. */
  #lastClaim: string | undefined;
  /** Error that has ended the claims: the worker leaves, and then throws it. */
  #fatal: unknown;

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
    if (atOnce) this.#takingBack.abort();
    this.#stopping.abort();
    this.#freed.resolve();
    this.#touch();
  }

  /**
   * Works until `stop` is called, or, with `signals`, until SIGTERM or SIGINT arrives; at a second one, it leaves at once.
   * Returns the numbers of items. If a claim is refused, the worker leaves in the same way and then throws the error.
   */
  async run(options: { readonly signals?: boolean } = {}): Promise<Summary> {
    const leave = (): void => this.stop({ atOnce: this.#stopping.signal.aborted });
    const names = options.signals === true ? (['SIGTERM', 'SIGINT'] as const) : [];
    for (const name of names) process.on(name, leave);
    const over = this.#over;
    const beats = Promise.allSettled([this.#beat(over.signal), this.#watchLeases(over.signal)]);
    const { amqpUrl, types, concurrency, warn } = this.#options;
    const wakes = amqpUrl === undefined ? undefined : listen(amqpUrl, types, Math.min(concurrency, MOST_WAKES), over.signal, warn);
    try {
      try {
        await this.#claimUntilStopped(wakes);
      } catch (cause) {
        this.#fatal = cause;
        warn(`the worker leaves: ${messageOf(cause)}`);
      }
      await Promise.all([this.#takeBack(), this.#drain()]);
      await this.#empty(10);
      this.summary.lost += this.#held.size;
      if (this.#fatal !== undefined) throw this.#fatal;
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

  async #claimUntilStopped(wakes: Wakes | undefined): Promise<void> {
    const { signal } = this.#stopping;
    const { types, workerId } = this.#options;
    for (let lookAt = 0, isStale = false; !signal.aborted; ) {
      this.#freed = deferred();
      const free = this.#options.concurrency - this.#held.size;
      if (free === 0) {
        await this.#freed.promise;
        continue;
      }
      const isWoken = wakes?.isAttached === true;
      // After a wake-up for an item that somebody else has, the worker looks for work by itself: more may be stale.
      const ids: string[] = isWoken && !isStale ? await wakes.take(free, lookAt - now(), this.#freed.promise) : [];
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
      const sent = now();
      this.#lastClaim = claimId;
      const assignments = await this.#claim(body, signal);
      if (assignments === undefined) return;
      this.#lastClaim = undefined;
      isStale = ids.length > 0 && assignments.length === 0;
      // There may be more where these came from.
      if (assignments.length > 0) lookAt = 0;
      for (const assignment of assignments) this.#start(assignment, sent);
    }
  }

  /** Sends a claim until it is answered: its id brings the items of a lost answer. Undefined if the signal is aborted first. */
  async #claim(body: object, signal: AbortSignal, limits: { retryTimeout?: number; timeout?: number } = {}): Promise<t.Assignment[] | undefined> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        const answer = await this.#client.request<t.ClaimResponse | undefined>('POST', '/assignments', { body, idempotent: true, signal, ...limits });
        return rowsOf(answer?.assignments);
      } catch (cause) {
        if (signal.aborted) return undefined;
        if (isRefusal(cause) && [400, 401, 403, 422].includes((cause as ApiError).status)) throw cause;
        failures += 1;
        this.#options.warn(messageOf(cause));
        await sleep(pauseAfter(failures, cause), signal).catch(() => undefined);
      }
    }
    return undefined;
  }

  /** Ends a claim that may still wait at the server, and releases what it has taken. */
  async #takeBack(): Promise<void> {
    if (this.#lastClaim === undefined) return;
    // It names no items: it takes nothing, and so does a request with this id that is still on its way.
    const body = { worker_id: this.#options.workerId, types: [], item_ids: [], claim_id: this.#lastClaim };
    const timer = setTimeout(() => this.#takingBack.abort(), LAST_CLAIM_TIMEOUT * 1_000);
    try {
      const assignments = await this.#claim(body, this.#takingBack.signal, { retryTimeout: 0 });
      for (const assignment of assignments ?? []) void this.#releaseTaken(this.#hold(assignment, now()));
    } catch (cause) {
      this.#options.warn(messageOf(cause));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Releases an item whose work has not begun. */
  async #releaseTaken(held: Assigned): Promise<void> {
    held.hasEnded = true;
    await this.#report({ assignment_id: held.assignment.id, release: undefined }, held);
  }

  /** Begins the work on an item. A claim that was sent long ago is confirmed first: its lease may be over. */
  #start(assignment: t.Assignment, sent: number): void {
    if (this.#held.has(assignment.id)) return;
    const held = this.#hold(assignment, sent);
    if (held.isConfirmed) void this.#work(held);
  }

  #hold(assignment: t.Assignment, sent: number): Assigned {
    const held = new Assigned(assignment, sent);
    this.#held.set(assignment.id, held);
    this.#touch();
    return held;
  }

  async #work(held: Assigned): Promise<void> {
    const { assignment, stop } = held;
    const task = new Task<Payload>(assignment, this.#client, stop.signal, (progress) => {
      held.progress = progress;
      this.#touch();
    });
    let ending: Ending = { assignment_id: assignment.id };
    try {
      ending['result'] = (await this.#handler(task)) ?? {};
    } catch (cause) {
      this.#describe(ending, cause, held);
    }
    const isFinal = ending['retryable'] === false || ending['cancel_tree'] === true;
    if (ending.error && stop.signal.aborted && !isFinal && assignment.item.delivery !== 'at_most_once') {
      // Most likely caused by the stop.
      ending = { assignment_id: assignment.id, release: ending['retry_after_seconds'] };
    }
    held.hasEnded = true;
    this.#touch();
    await this.#report(ending, held);
  }

  /** Reports an ending until Treeline has answered it, or has said that its assignment is closed. */
  async #report(ending: Ending, held: Assigned): Promise<void> {
    const { signal } = this.#over;
    if (signal.aborted) return;
    if (held.isClosed) this.summary.lost += 1;
    for (let next = held.isClosed ? undefined : ending; next !== undefined && !signal.aborted; ) {
      next = await this.#reportOnce(next, held);
    }
    this.#forget(held);
  }

  /** Reports an ending once. Returns what to report next; undefined: nothing. */
  async #reportOnce(ending: Ending, held: Assigned): Promise<Ending | undefined> {
    try {
      return await this.#send(ending);
    } catch (cause) {
      return this.#over.signal.aborted ? undefined : this.#afterUnanswered(ending, held, cause);
    }
  }

  #forget(held: Assigned): void {
    this.#held.delete(held.assignment.id);
    this.#freed.resolve();
    this.#touch();
  }

  #describe(ending: Ending, cause: unknown, { assignment, stop: { signal } }: Assigned): void {
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

  /** Sends an ending once. Returns what to send after its refusal. Throws if Treeline has not answered. */
  #send(ending: Ending): Promise<Ending | undefined> {
    if ('release' in ending) return this.#release(ending);
    return 'wait' in ending ? this.#wait(ending) : this.#finish(ending);
  }

  /** Sends a report once: the worker decides when it is sent again. */
  #post<T>(path: string, body: unknown): Promise<T> {
    const options = { body, idempotent: true, retryTimeout: 0, signal: this.#over.signal };
    return this.#client.request<T>('POST', `/assignments/${path}`, options);
  }

  /** True of an error that is no answer of Treeline to a report, or one about the caller. */
  #isUnanswered(cause: unknown): boolean {
    return this.#over.signal.aborted || isCallerRefused(cause) || isUnanswered(cause);
  }

  async #release({ assignment_id, release: pause }: Ending): Promise<Ending | undefined> {
    try {
      await this.#post(`${assignment_id}/release`, pause === undefined ? {} : { retry_after_seconds: pause });
      this.summary.released += 1;
    } catch (cause) {
      if (this.#isUnanswered(cause)) throw cause;
      if (cause instanceof ApiError && cause.code === 'already_started') return { assignment_id, error: stopped() };
      this.#options.warn(`an item could not be released: ${messageOf(cause)}`);
      this.summary.lost += 1;
    }
    return undefined;
  }

  async #wait({ assignment_id, wait }: Ending): Promise<Ending | undefined> {
    try {
      await this.#post(`${assignment_id}/wait`, wait);
      this.summary.released += 1;
    } catch (cause) {
      if (this.#isUnanswered(cause)) throw cause;
      if (!(cause instanceof ApiError && [404, 409, 410].includes(cause.status))) {
        // A wait that the server does not take, such as one with a wrong form, fails the same way every time.
        return { assignment_id, error: errorOf(`The wait was refused: ${messageOf(cause)}`.slice(0, 1_000)), retryable: false };
      }
      this.#options.warn(`assignment ${assignment_id} was over: ${messageOf(cause)}`);
      this.summary.lost += 1;
    }
    return undefined;
  }

  async #finish(ending: Ending): Promise<Ending | undefined> {
    try {
      const response = await this.#post<t.FinishResponse | undefined>('finish', { endings: [ending] });
      return this.#finishAnswered(ending, rowsOf(response?.endings)[0]);
    } catch (cause) {
      if (this.#isUnanswered(cause)) throw cause;
      return this.#afterRefusal(ending, messageOf(cause));
    }
  }

  #finishAnswered(ending: Ending, answer: t.AssignmentEndingResult | undefined): Ending | undefined {
    if (answer === undefined) throw new UnexpectedResponse('the response does not have the ending');
    const { status, code, errors } = answer;
    if (isTransientStatus(status)) throw new ApiError(`ending of assignment ${ending.assignment_id}`, status, { code: String(code) });
    if (![200, 404, 409, 410].includes(status)) {
      const [error] = errors ?? [];
      return this.#afterRefusal(ending, `${status} ${code}${error === undefined ? '' : ` at ${error.pointer}: ${error.detail}`}`);
    }
    if (status !== 200) {
      this.#options.warn(`assignment ${ending.assignment_id} was over: ${code}`);
      this.summary.lost += 1;
    } else if ('error' in ending) this.summary.failed += 1;
    else this.summary.succeeded += 1;
    return undefined;
  }

  /**
   * Waits before an ending is reported again that Treeline has not answered. Returns undefined if Treeline has said that the
   * assignment is closed, or has refused the caller for the length of a lease, and a failure without its content, once, if that is refused on the way for the length of a lease.
   */
  async #afterUnanswered(ending: Ending, held: Assigned, cause: unknown): Promise<Ending | undefined> {
    this.#options.warn(messageOf(cause));
    // A refused caller may be accepted again, by another server, for as long as the lease.
    if (held.isClosed || (isCallerRefused(cause) && now() >= held.lostAt)) {
      this.#options.warn(`assignment ${ending.assignment_id} was over`);
      this.summary.lost += 1;
      return undefined;
    }
    const pause = pauseAfter(held.unansweredReports, cause);
    if (held.reportUnanswered(now(), isForeign(cause))) {
      this.#options.warn(`the ending of assignment ${ending.assignment_id} was refused on the way; reporting a failure without it`);
      return withoutContent(ending, cause instanceof ApiError ? cause.status : undefined);
    }
    await sleep(Math.min(pause, LONGEST_REPORT_PAUSE), this.#over.signal).catch(() => undefined);
    return ending;
  }

  /**
   * The failure to report after Treeline has refused an ending: one that no retry heals for a result, one without its detail
   * for a failure. Undefined: there is nothing else to send.
   */
  #afterRefusal(ending: Ending, why: string): Ending | undefined {
    const { assignment_id, error } = ending;
    this.#options.warn(`the ending of assignment ${assignment_id} was refused: ${why}`);
    if (error === undefined) return { assignment_id, error: errorOf(`The result was refused: ${why}`.slice(0, 1_000)), retryable: false };
    if ('detail' in error) return { ...ending, error: withoutDetail(error, why) };
    this.summary.lost += 1;
    return undefined;
  }

  async #beat(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const at = now();
      const held = [...this.#held.values()].filter((one) => !one.isClosed);
      const due = held.filter((one) => one.dueAt <= at);
      if (due.length > 0) {
        await this.#sendBeats(due);
        continue;
      }
      const next = Math.min(at + 60, ...held.map((one) => one.dueAt));
      await within(Math.max(0.05, next - at), this.#changed.promise);
    }
  }

  /** Stops handlers whose heartbeats are not answered, also while one is on its way. */
  async #watchLeases(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const at = now();
      const held = [...this.#held.values()].filter((one) => one.isAtWork);
      for (const one of held.filter((one) => one.lostAt <= at)) {
        this.#options.warn(`no heartbeat of item ${one.assignment.item.id} was answered; stopping`);
        this.#lose(one);
      }
      const next = Math.min(at + 60, ...held.filter((one) => one.isAtWork).map((one) => one.lostAt));
      await within(Math.max(0.01, next - at), this.#changed.promise);
    }
  }

  async #sendBeats(due: readonly Assigned[]): Promise<void> {
    const at = now();
    const progress = due.map((one) => (one.isBare ? undefined : one.progress));
    for (const one of due) one.beaten = at;
    const heartbeats = due.map(({ assignment }, place) => {
      const said = progress[place];
      return { assignment_id: assignment.id, ...(said && { progress: said }) };
    });
    try {
      const answer = await this.#client.request<t.HeartbeatsResponse | undefined>('POST', '/assignments/heartbeat', {
        body: { heartbeats },
        idempotent: true,
        retryTimeout: 0,
        timeout: Math.min(HEARTBEAT_TIMEOUT, ...due.map((one) => one.interval / 2)),
        signal: this.#over.signal,
      });
      rowsOf(answer?.heartbeats).forEach((beat, place) => {
        const held = due[place];
        if (held === undefined) return;
        this.#beatAnswered(held, beat, at, progress[place]);
      });
    } catch (cause) {
      this.#options.warn(messageOf(cause));
      // Any progress in the batch may be the reason of a refusal.
      const hadProgress = progress.some((said) => said !== undefined);
      due.forEach((held, place) => {
        const said = progress[place];
        if (said !== undefined && isRefusal(cause)) held.progressRefused(now(), said);
        else held.beatUnanswered(now(), hadProgress, isForeign(cause));
      });
      await sleep(0.1);
    }
  }

  #beatAnswered(held: Assigned, beat: t.AssignmentHeartbeatResult, sent: number, progress: Progress | undefined): void {
    if ([404, 409, 410].includes(beat.status)) {
      held.isClosed = true;
      return this.#lose(held);
    }
    if (beat.status !== 200) {
      this.#options.warn(`a heartbeat of item ${held.assignment.item.id} was refused: ${JSON.stringify(beat.errors)}`);
      if (progress !== undefined && !isTransientStatus(beat.status)) held.progressRefused(now(), progress);
      else held.beatUnanswered(now(), progress !== undefined, false);
      return;
    }
    held.beatAccepted(sent, progress);
    if (held.isConfirmed) {
      if (beat.cancel === true) held.stop.abort();
      return;
    }
    held.isConfirmed = true;
    if (beat.cancel === true || this.#stopping.signal.aborted || this.#fatal !== undefined) void this.#releaseTaken(held);
    else void this.#work(held);
  }

  #lose(held: Assigned): void {
    held.isLost = true;
    if (!held.isConfirmed) {
      this.summary.lost += 1;
      this.#forget(held);
      return;
    }
    held.stop.abort();
    this.#touch();
  }

  async #drain(): Promise<void> {
    await this.#empty(this.#options.drainSeconds);
    for (const held of this.#held.values()) held.stop.abort();
    await this.#empty(this.#options.graceSeconds);
    const running = (): number => [...this.#held.values()].filter((held) => held.isConfirmed && !held.hasEnded && !held.isLost).length;
    if (running() > 0 && !this.#leavesAtOnce) {
      this.#options.warn(`${running()} handlers have not stopped; the worker waits for them, until a second signal`);
    }
    // Their items stay with this worker: nobody else may begin them meanwhile.
    while (running() > 0 && !this.#leavesAtOnce) await this.#changed.promise;
  }

  async #empty(seconds: number): Promise<void> {
    const deadline = now() + seconds;
    while (this.#held.size > 0 && !this.#leavesAtOnce && now() < deadline) {
      await within(Math.max(0.01, deadline - now()), this.#changed.promise);
    }
  }
}

/** Rows of a response. Throws `UnexpectedResponse` if there are none: something else than Treeline has answered. */
function isCallerRefused(cause: unknown): boolean {
  return cause instanceof ApiError && CALLER_REFUSED.includes(cause.status) && !isForeign(cause);
}

function rowsOf<T>(rows: readonly T[] | undefined): T[] {
  if (!Array.isArray(rows)) throw new UnexpectedResponse('the response is not from Treeline');
  return rows as T[];
}
