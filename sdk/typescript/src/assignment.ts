import type * as t from './schema.js';
import type { Progress } from './task.js';

/** Intervals of a lease. */
export const LEASE = 3;
/** Intervals without an answer to a heartbeat after which a handler is stopped. */
const LOST_AFTER = 2.5;
/** Shortest time between two heartbeats of an assignment that has new progress, in seconds. */
const PROGRESS_EVERY = 1;

/** Seconds of a clock that is never set. */
export const now = (): number => performance.now() / 1_000;

/** An assignment of a worker, from its claim until its ending is acknowledged. Times are in seconds. */
export class Assigned {
  readonly assignment: t.Assignment;
  readonly stop = new AbortController();
  readonly interval: number;
  /** When the last answered heartbeat was sent: the lease has lasted at most since then. */
  answered: number;
  due: number;
  /** When the last heartbeat was sent, answered or not. */
  beaten: number;
  /** False before the first heartbeat of an item whose claim was answered late. */
  isConfirmed: boolean;
  progress?: Progress | undefined;
  sent?: Progress | undefined;
  isLost = false;
  /** True when the handler has ended and its ending is being reported. */
  hasEnded = false;
  /** True after a heartbeat was refused: the next one has no progress. */
  isBare = false;
  /** Reports of the ending that were not accepted, and since when something else than Treeline refuses them. */
  failures = 0;
  refusedSince?: number;

  /** `sent`: when the claim was first sent. The lease may have begun then. */
  constructor(assignment: t.Assignment, sent: number) {
    this.assignment = assignment;
    this.interval = assignment.heartbeat_seconds;
    this.isConfirmed = now() - sent < this.interval;
    this.answered = this.isConfirmed ? sent : now();
    this.due = this.isConfirmed ? sent + this.interval : this.answered;
    this.beaten = this.answered;
  }

  /** When the next heartbeat is sent. */
  get dueAt(): number {
    const hasNews = !this.isBare && this.progress !== this.sent;
    return hasNews ? Math.min(this.due, this.beaten + PROGRESS_EVERY) : this.due;
  }

  /** When the handler is stopped unless a heartbeat is answered before. */
  get lostAt(): number {
    return this.answered + LOST_AFTER * this.interval;
  }
}
