/** Problem document (RFC 9457) of an error response. */
export interface Problem {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly code?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
  readonly [field: string]: unknown;
}

/** Base class of all errors of this package. */
export class TreelineError extends Error {
  override readonly name: string = 'TreelineError';
}

/** The server could not be reached, or a response broke off, and it was not safe or useful to try again. */
export class ConnectionFailed extends TreelineError {
  override readonly name: string = 'ConnectionFailed';
}

/** A successful response that is not from Treeline but, for example, the page of a firewall. */
export class UnexpectedResponse extends ConnectionFailed {
  override readonly name = 'UnexpectedResponse';
}

/** A response with an error status. */
export class ApiError extends TreelineError {
  override readonly name = 'ApiError';
  readonly status: number;
  /** Stable code of the problem: `not_found`, `invalid_body`, ...; empty if the response is not from Treeline but, for example, from a proxy. */
  readonly code: string;
  readonly problem: Problem;
  /** Seconds of `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(call: string, status: number, problem: Problem, retryAfter?: number) {
    const fields = (problem.errors ?? []).map(({ pointer, detail }) => `\n  ${pointer}: ${detail}`).join('');
    super(`${call}: ${status} ${problem.code ?? ''}: ${problem.detail ?? problem.title ?? ''}${fields}`);
    this.status = status;
    this.code = problem.code ?? '';
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** A webhook without a valid signature, or one that is too old or too new. */
export class InvalidWebhook extends TreelineError {
  override readonly name = 'InvalidWebhook';
}
