import { ApiError, ConnectionFailed, UnexpectedResponse, type Problem } from './errors.js';

const LONGEST_PAUSE = 60;

/** Seconds to wait after the given number of tries: from 0.1 doubling to 10, with jitter. */
export function backoff(tries: number): number {
  return Math.min(10, 0.1 * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
}

/** Seconds to wait after the given number of tries, the last with this error: at least its `Retry-After`. */
export function pauseAfter(tries: number, cause: unknown): number {
  return Math.max(backoff(tries), (cause instanceof ApiError && cause.retryAfter) || 0);
}

/** Seconds of a `Retry-After` header: a number or a date. */
export function retryAfter(value: string | null): number | undefined {
  if (value === null || value.trim() === '') return undefined;
  const seconds = Number.isNaN(Number(value)) ? (Date.parse(value) - Date.now()) / 1_000 : Number(value);
  return Number.isNaN(seconds) ? undefined : Math.min(LONGEST_PAUSE, Math.max(0, seconds));
}

/** True if a call may be sent again after this answer. `keyed` says that it has an `Idempotency-Key`. */
export function mayRepeat({ status, code, retryAfter: pause }: ApiError, idempotent: boolean, keyed = false): boolean {
  // 429 and 503: the server did nothing. 502 and 504 come from a proxy, and a server without its database: it may have.
  if (status === 502 || status === 504 || code === 'database_unavailable') return idempotent;
  // The key is that of another request, which is being answered.
  if (status === 409) return keyed && code === 'duplicate' && pause !== undefined;
  return status === 429 || status === 503;
}

/** True if the same call may succeed later: there was no response, or one with a status that passes. */
export function isTransient(cause: unknown): boolean {
  if (cause instanceof ConnectionFailed) return !(cause instanceof UnexpectedResponse);
  return cause instanceof ApiError && isTransientStatus(cause.status);
}

/** True of 408, 429, and 5xx. */
export function isTransientStatus(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/**
 * True of a response that is not from Treeline, such as the 404 of a proxy that is reloading. 413 is none, whoever sent it: it
 * is about the body.
 */
export function isForeign(cause: unknown): boolean {
  if (cause instanceof UnexpectedResponse) return true;
  return cause instanceof ApiError && cause.code === '' && cause.status !== 413 && !isTransientStatus(cause.status);
}

/** True if Treeline has not answered: there was no response, one that passes, or one of something else. */
export function isUnanswered(cause: unknown): boolean {
  return isTransient(cause) || isForeign(cause);
}

/** True if the same call is refused every time. */
export function isRefusal(cause: unknown): boolean {
  return cause instanceof ApiError && !isTransientStatus(cause.status) && !isForeign(cause);
}

/** Problem document of a response; undefined if it is not from Treeline. */
export function problemOf(mediaType: string | null, text: string): Problem | undefined {
  if (mediaType?.split(';')[0]?.trim().toLowerCase() !== 'application/problem+json') return undefined;
  try {
    const problem = JSON.parse(text) as Problem | null;
    return problem?.type === `urn:treeline:problem:${problem?.code}` ? problem : undefined;
  } catch {
    return undefined;
  }
}

/** Waits, or rejects when the signal is aborted. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, seconds * 1_000);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Promise that is resolved from outside. */
export interface Deferred {
  readonly promise: Promise<void>;
  resolve(): void;
}

export function deferred(): Deferred {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Waits for a promise, but at most this long. */
export async function within(seconds: number, promise: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, seconds * 1_000);
  });
  try {
    await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
  }
}
