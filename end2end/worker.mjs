// Worker controlled by a test: it claims, reports progress and finishes exactly when the test says so.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

export class Worker {
  constructor(server, type) {
    this.server = server;
    this.type = type;
  }

  /** Sends one call and retries it while the server is down. Every call of a worker is idempotent. */
  async call(route, body) {
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await this.server.api('POST', route, body);
        if (answer.status === 200) return await answer.json();
        assert.equal(answer.status, 503, `${route}: ${await answer.text()}`);
      } catch (error) {
        if (error instanceof assert.AssertionError || tries > 100) throw error;
      }
      await pause(100);
    }
  }

  /** Claims up to `max` items, waiting for the first, which must come. */
  async claim(max) {
    const assignments = await this.claimNow(max, 10);
    assert.ok(assignments.length > 0, `no item of ${this.type} came in ten seconds`);
    return assignments;
  }

  /** Claims up to `max` items, which may be none. */
  async claimNow(max, seconds = 0) {
    const body = { worker_id: 'story', types: [this.type], max, wait_seconds: seconds };
    return (await this.call('/assignments', body)).assignments;
  }

  /** Reports progress of one item. */
  progress(assignment, done, total, message) {
    return this.call(`/assignments/${assignment.id}/heartbeat`, { progress: { done, total, message } });
  }

  /** Ends assignments with a result each. */
  finish(assignments) {
    const endings = assignments.map(({ id, item }) => ({ assignment_id: id, result: { row: item.row } }));
    return this.call('/assignments/finish', { endings });
  }
}
