import type * as t from './schema.js';

export interface RequestOptions {
  readonly body?: unknown;
  readonly params?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** True if the request may be sent twice. Default: GET, PUT, DELETE, and requests with an `Idempotency-Key`. */
  readonly idempotent?: boolean;
  readonly retryTimeout?: number;
  /** Seconds within which one try must be answered. Default: that of the client. */
  readonly timeout?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Filters, order, and size of the pages of a list. */
export type Filters = Readonly<Record<string, string | number | boolean | undefined>>;

/** New job; `type` is its job type. */
export type NewJob = Partial<t.NewJob> & { readonly type: string };
/** New item. */
export type NewItem = Partial<t.NewItem>;
