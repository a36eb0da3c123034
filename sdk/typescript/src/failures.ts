// Failures as the server takes them: one that it refuses would be lost, and its item would run again.
// What an exception of a handler leads to is decided in `worker.ts`.

/** Most characters of a message and of a kind. */
const LONGEST_MESSAGE = 65_536;
const LONGEST_KIND = 255;
/** Longest pause before the next attempt, in seconds: ten years. */
const LONGEST_PAUSE = 315_360_000;

export interface ReportedError {
  readonly message: string;
  readonly kind?: string;
  readonly detail?: unknown;
}

/** Result, failure, release, or wait of an assignment. */
export type Ending = Record<string, unknown> & { assignment_id: string; error?: ReportedError };

/** Error of a failure, with a message and a kind that are cut to what the server stores. */
export function errorOf(message: string, kind?: string, detail?: unknown): ReportedError {
  const cut = kind === undefined ? '' : textOf(kind, LONGEST_KIND);
  return {
    message: textOf(message, LONGEST_MESSAGE) || 'The handler failed without a message.',
    ...(cut !== '' && { kind: cut }),
    ...(detail !== undefined && { detail }),
  };
}

/** The same error without the detail that was refused. */
export function withoutDetail({ detail: _, ...error }: ReportedError, why: string): ReportedError {
  return { ...error, message: `${textOf(error.message, 1_000)} (the detail was refused: ${textOf(why, 1_000)})` };
}

/**
 * The failure to report in place of an ending that something on the way to Treeline refuses for its content. The work of a
 * result is done, so it is not retryable; a failure stays what its handler said. A release has no content.
 */
export function withoutContent(ending: Ending, status: number | undefined): Ending {
  if ('release' in ending) return ending;
  const reason = status === undefined ? "an answer that is not Treeline's" : `status ${status}`;
  const error = errorOf(`The answer was refused on the way to Treeline with ${reason}.`, 'answer_refused');
  return ending.error === undefined ? { assignment_id: ending.assignment_id, error, retryable: false } : { ...ending, error };
}

/** Seconds until the next attempt, from 0 to ten years; undefined if there is no such number. */
export function pauseOf(seconds: number | undefined): number | undefined {
  if (seconds === undefined || Number.isNaN(Number(seconds))) return undefined;
  return Math.min(Math.max(0, Number(seconds)), LONGEST_PAUSE);
}

/** Text without NUL and lone surrogates, of so many characters at most. */
function textOf(value: unknown, most: number): string {
  // The server counts code points, of at most two UTF-16 units.
  const text = String(value).slice(0, 2 * most);
  const cut = text.length > most ? [...text].slice(0, most).join('') : text;
  return cut.replace(/[\0\p{Surrogate}]/gu, '\ufffd');
}
