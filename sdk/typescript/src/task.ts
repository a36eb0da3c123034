// What a handler gets and throws.
import type { Client } from './client.js';
import { TreelineError } from './errors.js';
import type * as t from './schema.js';

/** Most characters of a progress message. */
const LONGEST_MESSAGE = 1_000;

export interface FailureOptions {
  /** Groups errors. */
  readonly kind?: string;
  /** Any JSON. */
  readonly detail?: unknown;
  /** False: the item fails for good at once. */
  readonly retryable?: boolean;
  /** Replaces the backoff of the job type. */
  readonly retryAfterSeconds?: number;
  /** True: the whole tree is canceled. */
  readonly cancelTree?: boolean;
}

/** Thrown by a handler to fail an item in a chosen way. */
export class Failure extends TreelineError {
  override readonly name = 'Failure';
  readonly options: FailureOptions;

  constructor(message: string, options: FailureOptions = {}) {
    super(message);
    this.options = options;
  }
}

/** Thrown by a handler to give its item back without a failure. */
export class Release extends TreelineError {
  override readonly name = 'Release';
  readonly retryAfterSeconds: number | undefined;

  constructor(retryAfterSeconds?: number) {
    super('released');
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export interface WaitOptions {
  /** Seconds after which the next attempt gets an event that is `timed_out`. */
  readonly timeoutSeconds?: number;
  /** Questions that a person answers on the page of the item. */
  readonly form?: t.EventForm;
}

/**
 * Thrown by a handler to end its attempt and wait for the event of this name, without a lease and without a failure. The
 * next attempt has it as `task.event`.
 */
export class Wait extends TreelineError {
  override readonly name = 'Wait';
  readonly event: string;
  readonly options: WaitOptions;

  constructor(event: string, options: WaitOptions = {}) {
    super(`waits for ${event}`);
    this.event = event;
    this.options = options;
  }
}

export interface Progress {
  readonly done?: number;
  readonly total?: number;
  readonly message?: string;
}

/** Progress as the server takes it; it refuses unknown fields. */
function checkedProgress({ done, total, message }: Progress): Progress {
  checkCount('done', done);
  checkCount('total', total);
  checkMessage(message);
  return { ...(done != null && { done }), ...(total != null && { total }), ...(message != null && { message }) };
}

function checkCount(name: string, value: unknown): void {
  if (value == null) return;
  if (typeof value !== 'number') throw new TypeError(`${name}: expected a number, not ${typeof value}`);
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`${name}: expected a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
}

function checkMessage(value: unknown): void {
  if (value == null) return;
  if (typeof value !== 'string') throw new TypeError(`message: expected a string, not ${typeof value}`);
  // The server counts code points, not UTF-16 units.
  if (value.length > LONGEST_MESSAGE && [...value].length > LONGEST_MESSAGE) {
    throw new RangeError(`message: expected at most ${LONGEST_MESSAGE} characters`);
  }
  if (/[\0\p{Surrogate}]/u.test(value)) throw new RangeError('message: expected text without NUL and lone surrogates');
}

/** One item in a handler's hands. */
export class Task<Payload = unknown> {
  readonly assignment: t.Assignment;
  /** Aborted when the work must end: the job was canceled, the lease was lost, or the worker is leaving. */
  readonly signal: AbortSignal;
  readonly #client: Client;
  readonly #said: (progress: Progress) => void;

  constructor(assignment: t.Assignment, client: Client, signal: AbortSignal, said: (progress: Progress) => void) {
    this.assignment = assignment;
    this.signal = signal;
    this.#client = client;
    this.#said = said;
  }

  /** Payload of the item. */
  get payload(): Payload {
    return this.assignment.item.payload as Payload;
  }

  /** Number of this attempt, from 1. */
  get attempt(): number {
    return this.assignment.attempt;
  }

  /** ID of the item: the same in every attempt, so it can make effects idempotent. */
  get itemId(): string {
    return this.assignment.item.id;
  }

  /** Last recovery point of an earlier attempt. */
  get lastStep(): { readonly name: string; readonly data?: unknown } | undefined {
    return this.assignment.item.step ?? undefined;
  }

  /** Event that the previous attempt waited for (`Wait`): its name, data, and sender. */
  get event(): t.ReceivedEvent | undefined {
    return this.assignment.item.event ?? undefined;
  }

  /**
   * Reports progress. Cheap: at most one report a second is sent, always the latest. `done` and `total` are whole numbers
   * from 0, and `message` has at most 1,000 characters; otherwise this throws `TypeError` or `RangeError`.
   */
  progress(progress: Progress): void {
    this.#said(checkedProgress(progress));
  }

  /** Records a recovery point and its data. The next attempt receives it as `lastStep`. */
  async step(name: string, data: unknown = null): Promise<void> {
    const path = `/assignments/${this.assignment.id}/step`;
    await this.#client.request('POST', path, { body: { name, data }, idempotent: true });
  }

  /** Adds a line to the log of this attempt. A line that cannot be sent is lost, never the work. */
  async log(message: string, level: t.LogLevel = 'info', fields?: Readonly<Record<string, unknown>>): Promise<void> {
    const line = { message, level, ...(fields === undefined ? {} : { fields }) };
    const path = `/assignments/${this.assignment.id}/logs`;
    await this.#client.request('POST', path, { body: { lines: [line] }, retryTimeout: 5 }).catch(() => undefined);
  }
}

export type Handler<Payload = unknown> = (task: Task<Payload>) => unknown;
