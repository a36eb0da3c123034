import { ApiError, ConnectionFailed, UnexpectedResponse } from './errors.js';
import { Management } from './management.js';
import type { Filters, NewItem, NewJob, RequestOptions } from './options.js';
import { backoff, isForeign, isTransient, mayRepeat, problemOf, retryAfter, sleep } from './retry.js';
import type * as t from './schema.js';
import { eventsOf, linesOf } from './sse.js';

/** Bytes of a file that are sent with one request; what a broken connection costs. */
const CHUNK = 8 * 1024 * 1024;
/** Seconds without a byte after which an event stream counts as broken; the server sends one every 15. */
const SILENCE = 45;
/** Bytes a second of the slowest connection over which a file can be sent. */
const SLOWEST = 16 * 1024;
/** Seconds before an event stream is opened again that the server has ended, unless it says another time. */
const REOPEN = 5;
/** Seconds of one long poll. */
const POLL = 25;
/** Seconds after the first failed attempt without progress after which an upload fails, and time limit of a piece. */
const UPLOAD_STALL = 120;
/** Seconds within which the server must say the offset after the last piece: it assembles the whole file first. */
const ASSEMBLY_TIMEOUT = 300;
/** Bytes of the smallest piece. */
const SMALLEST_CHUNK = 256 * 1024;
/** Seconds of the shortest `Retry-After` of a quota that waiting does not free. */
const LASTING_QUOTA = 60;
/** Header of resumable uploads. */
const TUS = { 'tus-resumable': '1.0.0' };

export interface ClientOptions {
  /** Address of the server. Default: the environment variable `TREELINE_URL`, or http://127.0.0.1:3000. */
  readonly url?: string;
  /** Token. Default: the environment variable `TREELINE_TOKEN`. A page of the same server needs none. */
  readonly token?: string;
  /** Seconds for which a call is sent again while the server is busy or away. Default: 30. */
  readonly retryTimeout?: number;
  /** Seconds within which one try of a call must be answered, beyond those that the server is asked to wait. Default: 30. */
  readonly timeout?: number;
  /** Bytes of one piece of an upload. Default: 8 MiB. */
  readonly chunk?: number;
  readonly fetch?: typeof fetch;
}

interface Sent extends RequestOptions {
  readonly raw?: Blob | undefined;
}

const variable = (name: string): string | undefined =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name];

/**
 * Client of one server, with one token. Calls that can be repeated without doing anything twice are sent again while
 * the server is busy or away; other calls not if the server may already have run them.
 */
export class Client extends Management {
  readonly url: string;
  readonly #retryTimeout: number;
  readonly #timeout: number;
  readonly #chunk: number;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    super();
    this.url = (options.url ?? variable('TREELINE_URL') ?? 'http://127.0.0.1:3000').replace(/\/+$/, '');
    const token = options.token ?? variable('TREELINE_TOKEN');
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#retryTimeout = options.retryTimeout ?? 30;
    this.#timeout = options.timeout ?? 30;
    this.#chunk = options.chunk ?? CHUNK;
    this.#fetch = options.fetch ?? ((...call) => fetch(...call));
  }

  /**
   * Sends any request of the API and returns the JSON of its response, or undefined. `path` begins after `/api/v1`.
   * Rejects with `ApiError` or `ConnectionFailed`.
   */
  async request<T = unknown>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const text = await this.#read(method, path, options, (response) => response.text());
    try {
      return (text === '' ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      throw new UnexpectedResponse(`${method} ${path}: the response is not JSON`, { cause });
    }
  }

  /** Sends a request. The body of its response, which the caller reads, has no time limit. */
  #send(method: string, path: string, options: Sent): Promise<Response> {
    return this.#read(method, path, options, (response) => response);
  }

  /** Sends a request and reads its response, in one time limit, and repeats that if it may. */
  async #read<T>(method: string, path: string, options: Sent, read: (response: Response) => T | Promise<T>): Promise<T> {
    const headers: Record<string, string> = { ...this.#headers, ...options.headers };
    const keyed = Object.keys(headers).some((name) => name.toLowerCase() === 'idempotency-key');
    const idempotent = options.idempotent ?? (['GET', 'HEAD', 'PUT', 'DELETE'].includes(method) || keyed);
    for (const [name, value] of Object.entries(headers)) headers[name] = bytesOf(value);
    // A redirect would be followed without the token, or as a GET.
    const init: RequestInit = { method, headers, redirect: 'manual' };
    if (options.body !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(options.body);
    } else if (options.raw !== undefined) {
      init.body = options.raw;
    }
    const url = this.#address(path, options.params);
    const deadline = Date.now() + (options.retryTimeout ?? this.#retryTimeout) * 1_000;
    for (let tries = 1; ; tries += 1) {
      let pause = backoff(tries);
      const limit = new AbortController();
      const signal = options.signal == null ? limit.signal : AbortSignal.any([limit.signal, options.signal]);
      const timer = setTimeout(() => limit.abort(new ConnectionFailed('there was no answer in time')), this.#limitOf(options) * 1_000);
      let failed: ApiError | undefined;
      try {
        const response = await this.#fetch(url, { ...init, signal });
        if (response.ok || response.status === 304) return await read(response);
        failed = await apiError(`${method} ${path}`, response);
      } catch (cause) {
        options.signal?.throwIfAborted();
        if (codeOf(cause) === 'ERR_INVALID_URL') throw cause;
        const refused = ['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT'].includes(codeOf(cause));
        if (!(refused || idempotent) || Date.now() + pause * 1_000 > deadline) {
          throw new ConnectionFailed(`${method} ${path}: ${messageOf(cause)}`, { cause });
        }
      } finally {
        clearTimeout(timer);
      }
      if (failed !== undefined) {
        pause = Math.max(pause, failed.retryAfter ?? 0);
        if (!mayRepeat(failed, idempotent, keyed) || Date.now() + pause * 1_000 > deadline) throw failed;
      }
      await sleep(pause, options.signal);
    }
  }

  /** Seconds within which one try must be answered. */
  #limitOf({ timeout, params, body, raw }: Sent): number {
    const wait = Number(params?.['wait_seconds'] ?? (body as { wait_seconds?: number } | undefined)?.wait_seconds ?? 0);
    return timeout ?? this.#timeout + wait + (raw?.size ?? 0) / SLOWEST;
  }

  #address(path: string, params: Filters = {}): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) if (value !== undefined) query.set(name, String(value));
    return `${this.url}/api/v1${path}${query.size > 0 ? `?${query}` : ''}`;
  }

  /** Rows of a list, page by page. */
  async *pages<T = unknown>(path: string, params: Filters = {}): AsyncGenerator<T> {
    for (let cursor: string | undefined; ; ) {
      const given: Filters = cursor === undefined ? params : { ...params, cursor };
      const page = await this.request<{ data: T[]; next_cursor?: string | null }>('GET', path, { params: given });
      yield* page.data;
      if (page.next_cursor == null) return;
      cursor = page.next_cursor;
    }
  }

  /** Response whose body is read by the caller: `/jobs/ID/failures` with `{ format: 'csv' }`, or the content of an upload. */
  download(path: string, params: Filters = {}): Promise<Response> {
    return this.#send('GET', path, { params });
  }

  /** JSON lines of a stream of results. A stream that breaks off is continued where it ended. */
  async *lines<T extends { item_id: string }>(path: string): AsyncGenerator<T> {
    let after: string | undefined;
    for (let failures = 0; ; ) {
      const response = await this.#send('GET', path, { params: { after } });
      try {
        if (response.body !== null) {
          for await (const text of linesOf(response.body)) {
            if (text === '') continue;
            const line = JSON.parse(text) as T;
            [after, failures] = [line.item_id, 0];
            yield line;
          }
        }
        return;
      } catch (cause) {
        failures += 1;
        if (failures > 5) throw new ConnectionFailed(`GET ${path}: ${messageOf(cause)}`, { cause });
        await sleep(backoff(failures));
      }
    }
  }

  /** Owner of the token, and its scopes. */
  me(): Promise<t.CurrentCaller> {
    return this.request('GET', '/me');
  }

  /**
   * Creates a tree of jobs. With `key` (Idempotency-Key), the same call again returns the same tree; without one, the
   * client chooses an id, so that a repeated request cannot create two trees.
   */
  createJob(job: NewJob, options: { readonly key?: string } = {}): Promise<t.Job> {
    if (options.key !== undefined) {
      return this.request('POST', '/jobs', { body: job, headers: { 'Idempotency-Key': options.key } });
    }
    const { id = crypto.randomUUID(), ...body } = job;
    return this.request('PUT', `/jobs/${id}`, { body });
  }

  /** One job with the jobs below it. */
  job(id: string): Promise<t.Job> {
    return this.request('GET', `/jobs/${id}`);
  }

  /** Jobs, newest first. Filters are those of `GET /jobs`. */
  jobs(filters: Filters = {}): AsyncGenerator<t.Job> {
    return this.pages<t.Job>('/jobs', filters);
  }

  /** Waits until a job and everything below it is complete. Rejects when `signal` is aborted. */
  async wait(id: string, options: { readonly signal?: AbortSignal } = {}): Promise<t.Job> {
    let job = await this.job(id);
    while (job.tree.status !== 'completed') job = (await this.#newerJob(id, job.version, POLL, options.signal)) ?? job;
    return job;
  }

  /** Waits for a newer version of a job; undefined if there is none in time. */
  async #newerJob(id: string, version: number, seconds: number, signal?: AbortSignal): Promise<t.Job | undefined> {
    const headers = { 'if-none-match': `"${version}"` };
    const options = { params: { wait_seconds: seconds }, headers, signal };
    return this.#read('GET', `/jobs/${id}`, options, async (response) =>
      response.status === 304 ? undefined : ((await response.json()) as t.Job),
    );
  }

  /** Adds items, in one call. With `key`, the same call again adds nothing. */
  addItems(id: string, items: readonly NewItem[], options: { readonly seal?: boolean; readonly key?: string } = {}): Promise<t.ItemsAdded> {
    const headers = { 'Idempotency-Key': options.key ?? crypto.randomUUID() };
    return this.request('POST', `/jobs/${id}/items`, { body: items, headers, params: { seal: options.seal || undefined } });
  }

  /** Ends the adding of items to a job. */
  seal(id: string): Promise<t.Job> {
    return this.request('POST', `/jobs/${id}/seal`, { idempotent: true });
  }

  /** Cancels a job and everything below it. */
  cancel(id: string, reason?: string): Promise<t.Job> {
    return this.request('POST', `/jobs/${id}/cancel`, { body: reason === undefined ? {} : { reason }, idempotent: true });
  }

  /** Results of a job, as a stream. */
  results(id: string): AsyncGenerator<t.ResultLine> {
    return this.lines<t.ResultLine>(`/jobs/${id}/results`);
  }

  /** Failed items of a job with their errors, as a stream. */
  failures(id: string): AsyncGenerator<t.FailureLine> {
    return this.lines<t.FailureLine>(`/jobs/${id}/failures`);
  }

  /** One item with its payload, result, and last error. */
  item(id: string): Promise<t.Item> {
    return this.request('GET', `/items/${id}`);
  }

  /** Items, those of the newest job first. Filters are those of `GET /items`. */
  items(filters: Filters = {}): AsyncGenerator<t.Item> {
    return this.pages<t.Item>('/items', filters);
  }

  /** Sends an item the event that it waits for. With `key`, the same call again has no effect. */
  sendEvent(id: string, event: t.EventRequest, options: { readonly key?: string } = {}): Promise<t.Item> {
    const headers = { 'Idempotency-Key': options.key ?? crypto.randomUUID() };
    return this.request('POST', `/items/${id}/events`, { body: event, headers });
  }

  /** Ends an attempt to wait for an event, with a timeout and a form for people if wanted. */
  waitForEvent(assignmentId: string, wait: t.WaitBody): Promise<t.AssignmentEnded> {
    return this.request('POST', `/assignments/${assignmentId}/wait`, { body: wait, idempotent: true });
  }

  /** Puts a failed item back, with another payload if one is given. */
  retry(id: string, body: Readonly<Record<string, unknown>> = {}): Promise<t.Item> {
    return this.request('POST', `/items/${id}/retry`, { body });
  }

  /**
   * Yields a job with everything below it: now, and after each change, until it is complete. A stream that breaks is
   * opened again; a server that has too many is asked by long polls. Ends early if the job is deleted.
   */
  async *watch(id: string, options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<t.Job> {
    let seen = -1;
    for (let failures = 0; ; ) {
      const silence = new AbortController();
      const signal = options.signal === undefined ? silence.signal : AbortSignal.any([silence.signal, options.signal]);
      let timer: ReturnType<typeof setTimeout> | undefined;
      let pause = REOPEN;
      let isBusy = false;
      const wait = (): void => {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(new ConnectionFailed('the event stream is silent')), SILENCE * 1_000);
      };
      try {
        wait();
        const headers = { accept: 'text/event-stream' };
        const response = await this.#send('GET', `/jobs/${id}/events`, { headers, signal, retryTimeout: 0 });
        for await (const event of eventsOf(heard(linesOf(response.body as ReadableStream<Uint8Array>), wait))) {
          failures = 0;
          if (event.name === 'removed') return;
          isBusy = event.name === 'busy';
          const isEnd = isBusy || event.name === 'bye';
          pause = isEnd ? (event.retry ?? REOPEN) : 0;
          if (isEnd) continue;
          const job = await this.job(id);
          if (job.version > seen) {
            seen = job.version;
            yield job;
          }
          if (job.tree.status === 'completed') return;
        }
      } catch (cause) {
        options.signal?.throwIfAborted();
        if (cause instanceof ApiError && cause.code === 'job_removed') return;
        if (cause instanceof ApiError && !mayRepeat(cause, true)) throw cause;
        failures += 1;
        // This server has too many streams of the owner.
        isBusy = cause instanceof ApiError && cause.status === 429;
        pause = (cause instanceof ApiError ? cause.retryAfter : undefined) ?? (isBusy ? REOPEN : 0);
      } finally {
        clearTimeout(timer);
        silence.abort();
      }
      const reopenAt = Date.now() + Math.max(pause, backoff(failures)) * 1_000;
      const left = (): number => Math.max(0, (reopenAt - Date.now()) / 1_000);
      // The server has too many streams: it is asked without one meanwhile.
      while (isBusy && left() >= 1) {
        const seconds = Math.min(POLL, Math.floor(left()));
        let job: t.Job | undefined;
        try {
          job = await this.#newerJob(id, Math.max(0, seen), seconds, options.signal);
        } catch (cause) {
          options.signal?.throwIfAborted();
          if (cause instanceof ApiError && cause.code === 'job_removed') return;
          if (cause instanceof ApiError && !mayRepeat(cause, true)) throw cause;
        }
        if (job !== undefined && job.version > seen) {
          seen = job.version;
          yield job;
          if (job.tree.status === 'completed') return;
        }
        await sleep(1, options.signal);
      }
      await sleep(left(), options.signal);
    }
  }

  /**
   * Stores a file: a `File` of a browser, or `await openAsBlob(path)` of Node.js. `progress` is called with the bytes
   * sent so far and their total. The file is sent in pieces, so a broken connection costs one piece at most. An
   * upload fails if nothing has arrived for two minutes after the first failed attempt.
   */
  async upload(file: Blob, filename: string, progress?: (sent: number, total: number) => void): Promise<t.Upload> {
    const created = await this.#send('POST', '/uploads/resumable', {
      params: { filename },
      headers: { ...TUS, 'upload-length': String(file.size), 'Idempotency-Key': crypto.randomUUID() },
    });
    const id = (created.headers.get('location') ?? '').split('/').at(-1) ?? '';
    progress?.(0, file.size);
    await this.#sendPieces(file, `/uploads/resumable/${id}`, progress);
    return this.request('GET', `/uploads/${id}`);
  }

  /** Sends a file piece by piece. After an error that may pass, the server is asked where to go on. */
  async #sendPieces(file: Blob, path: string, progress?: (sent: number, total: number) => void): Promise<void> {
    let offset = 0;
    let size = this.#chunk;
    // Number of failed attempts since the offset last grew, and the time of the first one.
    let [failures, stalledAt] = [0, 0];
    let last: unknown;
    let [isKnown, isLast] = [true, false];
    while (offset < file.size) {
      const before = offset;
      try {
        if (isKnown) isLast = offset + size >= file.size;
        offset = await (isKnown ? this.#sendPiece(file, path, offset, size) : this.#received(path, isLast));
        isKnown = true;
      } catch (cause) {
        if (failures === 0) stalledAt = Date.now();
        failures += 1;
        // After a piece, only the server knows whether anything has moved: some of it may have arrived.
        if (!mayResume(cause) || (!isKnown && Date.now() - stalledAt >= UPLOAD_STALL * 1_000)) throw cause;
        last = cause;
        // `fetch` says nothing about its progress: on a slow line, a smaller piece arrives in time.
        if (isKnown) size = Math.max(Math.min(SMALLEST_CHUNK, this.#chunk), Math.ceil(size / 4));
        isKnown = false;
        await sleep(Math.max(backoff(failures), cause instanceof ApiError ? (cause.retryAfter ?? 0) : 0));
        continue;
      }
      if (offset > before) [failures, size] = [0, Math.min(this.#chunk, size * 2)];
      else if (failures > 0 && Date.now() - stalledAt >= UPLOAD_STALL * 1_000) throw last;
      progress?.(offset, file.size);
    }
  }

  /** Sends the piece at an offset, once, and returns the new offset. */
  async #sendPiece(file: Blob, path: string, offset: number, size: number): Promise<number> {
    const raw = file.slice(offset, offset + size);
    const headers = { ...TUS, 'upload-offset': String(offset), 'content-type': 'application/offset+octet-stream' };
    const response = await this.#send('PATCH', path, { headers, raw, retryTimeout: 0, timeout: UPLOAD_STALL });
    const end = offsetOf(response);
    if (end <= offset) throw new ConnectionFailed(`PATCH ${path}: the response has no new Upload-Offset`);
    return end;
  }

  /** Number of bytes that the server has, asked after a piece, which may be the last one. */
  async #received(path: string, isLast: boolean): Promise<number> {
    // GET: a refusal says why, which that of a HEAD cannot.
    return offsetOf(await this.#send('GET', path, { headers: TUS, retryTimeout: 0, timeout: isLast ? ASSEMBLY_TIMEOUT : UPLOAD_STALL }));
  }

  /** Uploads a file and starts a job in which each row is an item. */
  async importFile(file: Blob, filename: string, job: NewJob, progress?: (sent: number, total: number) => void): Promise<t.Job> {
    const upload = await this.upload(file, filename, progress);
    return this.createJob({ ...job, upload: { ...job.upload, id: upload.id } });
  }
}

async function* heard(lines: AsyncIterable<string>, each: () => void): AsyncGenerator<string> {
  for await (const line of lines) {
    each();
    yield line;
  }
}

async function apiError(call: string, response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  const location = response.headers.get('location');
  const detail = location === null ? text.slice(0, 200) : `redirected to ${location}`;
  const problem = problemOf(response.headers.get('content-type'), text) ?? { detail };
  return new ApiError(call, response.status, problem, retryAfter(response.headers.get('retry-after')));
}

/** Text of a header whose characters are its bytes in UTF-8, as `fetch` sends them. */
function bytesOf(text: string): string {
  return /^[\0-\x7f]*$/.test(text) ? text : String.fromCharCode(...new TextEncoder().encode(text));
}

function offsetOf(response: Response): number {
  const offset = Number.parseInt(response.headers.get('upload-offset') ?? '', 10);
  if (Number.isNaN(offset)) throw new ConnectionFailed('the response has no Upload-Offset');
  return offset;
}

/** True if an upload can continue after this error, where the server says. */
function mayResume(cause: unknown): boolean {
  if (!(cause instanceof ApiError)) return cause instanceof ConnectionFailed;
  // The body of the piece paused for too long; the server has what came before.
  if (cause.code === 'wrong_offset' || cause.code === 'invalid_body') return true;
  if (cause.code === 'quota_exceeded') return (cause.retryAfter ?? LASTING_QUOTA) < LASTING_QUOTA;
  return cause.code !== 'insufficient_storage' && (isTransient(cause) || isForeign(cause));
}

/** Message of anything that was thrown. */
export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const inner = cause.cause instanceof Error ? `: ${cause.cause.message}` : '';
  return `${cause.message}${inner}`;
}

function codeOf(cause: unknown): string {
  const inner = cause instanceof Error ? (cause.cause as { code?: unknown } | undefined) : undefined;
  return typeof inner?.code === 'string' ? inner.code : '';
}
