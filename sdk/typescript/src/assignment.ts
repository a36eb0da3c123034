import type * as t from './schema.js';
import type { Progress } from './task.js';

/** Intervals of a lease. */
const LEASE = 3;
/** Intervals without an answer to a heartbeat after which a handler is stopped. */
const LOST_AFTER = 2.5;
/** Shortest time between two heartbeats of an assignment that has new progress, in seconds. */
const PROGRESS_EVERY = 1;
/** Longest time in seconds before a heartbeat is repeated whose lease may be over. */
const LONGEST_PAUSE = 10;

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
  /** True while no heartbeat was answered for so long that the lease may be over: the handler is told to stop. */
  isLost = false;
  /** True when Treeline has said that the assignment is closed. */
  isClosed = false;
  /** True when the handler has ended and its ending is being reported. */
  hasEnded = false;
  /** True after a heartbeat was refused: the next one has no progress. */
  isBare = false;
  /** True after something else than Treeline refused progress: it waits for the heartbeats that are due. */
  isProgressHeld = false;
  /** Number of reports of the ending that Treeline has not answered. */
  unansweredReports = 0;
  /** Since when something else than Treeline refuses the ending, and nothing else happens to it. */
  refusedSince: number | undefined;
  /** True if the ending was replaced by a failure without its content. */
  isWithoutContent = false;

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
    const hasNews = !(this.isBare || this.isProgressHeld) && this.progress !== this.sent;
    return hasNews ? Math.min(this.due, this.beaten + PROGRESS_EVERY) : this.due;
  }

  /** True if a handler must be stopped when the lease may be over. The ending of one that has ended is reported. */
  get isAtWork(): boolean {
    return !(this.hasEnded || this.isLost || this.isClosed);
  }

  /** Records that a heartbeat sent at `sent` was accepted with this progress. */
  beatAccepted(sent: number, progress: Progress | undefined): void {
    [this.due, this.answered, this.isLost, this.sent] = [sent + this.interval, sent, false, progress];
    [this.isBare, this.isProgressHeld] = [false, this.isProgressHeld && progress === undefined];
  }

  /**
   * Records that a heartbeat was not answered by Treeline. If something else refused the batch, maybe for the progress in it,
   * the next one goes at once without any.
   */
  beatUnanswered(at: number, hadProgress: boolean, isForeign: boolean): void {
    if (isForeign) this.isBare = this.isProgressHeld = hadProgress;
    const pause = isForeign && hadProgress ? 0 : at < this.lostAt ? 1 : LONGEST_PAUSE;
    this.due = at + Math.min(pause, this.interval / 4);
  }

  /** Drops progress that Treeline refuses. It must not cost the lease: one heartbeat goes at once without it. */
  progressRefused(at: number, progress: Progress): void {
    [this.due, this.isBare] = [at, true];
    if (this.progress === progress) this.progress = undefined;
  }

  /**
   * Records that a report of the ending was not answered by Treeline. True once if its content is the reason: it was only
   * refused on the way for the length of a lease, in which Treeline answered the heartbeats.
   */
  reportUnanswered(at: number, isForeign: boolean): boolean {
    this.unansweredReports += 1;
    if (!isForeign || at >= this.lostAt) {
      this.refusedSince = undefined;
      return false;
    }
    this.refusedSince ??= at;
    const isContentRefused = at - this.refusedSince >= LEASE * this.interval;
    if (this.isWithoutContent || !isContentRefused) return false;
    this.isWithoutContent = true;
    return true;
  }

  /** When the handler is stopped unless a heartbeat is answered before. */
  get lostAt(): number {
    return this.answered + LOST_AFTER * this.interval;
  }
}
