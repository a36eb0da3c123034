// A worker in the test's hands: it claims, reports progress and finishes exactly when the story says so.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

export class Worker {
  constructor(server, type) {
    this.server = server;
    this.type = type;
  }

  /** One call that is tried again while the server is away. Every call of a worker is safe to repeat. */
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

  /** Claims up to `max` items, waiting for the first. */
  async claim(max) {
    const body = { worker_id: 'story', types: [this.type], max, wait_seconds: 10 };
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
