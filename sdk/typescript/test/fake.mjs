// A server made up by a test, for what a real one does not do at will.
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from '../dist/index.js';
import { Worker } from '../dist/worker.js';

/**
 * Hands out assignments of one item each, accepts every ending, and records the requests. `answer` may return a response
 * or a JSON body instead of the usual one.
 */
export class FakeServer {
  requests = [];

  constructor({ items = 1, heartbeatSeconds = 60, answer = () => undefined, item = {}, client = {} } = {}) {
    Object.assign(this, { left: items, heartbeatSeconds, answer, item, options: client });
  }

  /** Bodies of the requests whose path has this ending. */
  sent(ending) {
    return this.requests.filter(({ path }) => path.endsWith(ending)).map(({ body }) => body);
  }

  client(options = {}) {
    return new Client({ url: 'http://fake', token: 'token', fetch: (url, init) => this.#handle(url, init), ...this.options, ...options });
  }

  /** Runs a worker until a condition holds; then it leaves. */
  async run(handler, until, options = {}) {
    const worker = new Worker(this.client(), { types: ['t'], warn: () => {}, ...options }, handler);
    const running = worker.run();
    const deadline = Date.now() + 20_000;
    while (!until() && Date.now() < deadline) await pause(10);
    worker.stop();
    return running;
  }

  async #handle(url, init) {
    await pause(1, undefined, { signal: init.signal ?? undefined });
    const path = new URL(url).pathname.replace('/api/v1', '');
    const body = typeof init.body === 'string' ? JSON.parse(init.body) : undefined;
    this.requests.push({ path, body, init });
    const answer = (await this.answer(path, body, init)) ?? this.#usual(path, body);
    return answer instanceof Response ? answer : Response.json(answer);
  }

  #usual(path, body) {
    if (path === '/assignments') {
      const count = body.item_ids?.length === 0 ? 0 : Math.min(this.left, body.max);
      this.left -= count;
      return { assignments: Array.from({ length: count }, (_, at) => this.#assignment(this.left + at)) };
    }
    for (const kind of ['heartbeats', 'endings']) {
      if (body?.[kind]) return { [kind]: body[kind].map(({ assignment_id }) => ({ assignment_id, status: 200 })) };
    }
    return {};
  }

  #assignment(number) {
    const item = { id: `item-${number}`, type: 't', payload: number, ...this.item };
    return { id: `assignment-${number}`, item, attempt: 1, heartbeat_seconds: this.heartbeatSeconds };
  }
}

/** Problem document of Treeline. */
export function problem(status, fields = {}, headers = {}) {
  const { code = 'invalid_body' } = fields;
  const document = { type: `urn:treeline:problem:${code}`, status, code, ...fields };
  return Response.json(document, { status, headers: { 'content-type': 'application/problem+json', ...headers } });
}
