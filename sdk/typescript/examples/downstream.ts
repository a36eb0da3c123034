// A small HTTP server that stands for a bank, a ledger or a post office, which the workers call.
//
// It does what every downstream of an at-least-once worker must do: a request carries an `Idempotency-Key`, and a second
// request with the same key returns the first receipt and has no effect.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { Failure } from '@treeline/client/worker';

/** Duration of a request in milliseconds; a concurrent one on the same account would be counted in that time. */
const TAKES = 5;

/** Side effect of a request. */
export interface Effect {
  readonly what: string;
  readonly account: string;
  readonly key: string;
  readonly receipt: string;
}

export class Downstream {
  requests = 0;
  readonly effects: Effect[] = [];
  readonly closed = new Set<string>();
  readonly #server: Server;
  readonly #inFlight = new Map<string, number>();
  readonly #most = new Map<string, number>();

  private constructor() {
    this.#server = createServer(async (request, response) => {
      let body = '';
      for await (const piece of request) body += piece;
      const { account } = JSON.parse(body) as { account: string };
      const key = String(request.headers['idempotency-key']);
      const [status, answer] = await this.#serve((request.url ?? '').slice(1), account, key);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  }

  static async open(): Promise<Downstream> {
    const downstream = new Downstream();
    await new Promise<void>((resolve) => downstream.#server.listen(0, '127.0.0.1', resolve));
    return downstream;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Maximum number of concurrent requests on an account. */
  mostAtOnce(account: string): number {
    return this.#most.get(account) ?? 0;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(what: string, account: string, key: string): Promise<[number, Record<string, string>]> {
    this.requests += 1;
    const inFlight = (this.#inFlight.get(account) ?? 0) + 1;
    this.#inFlight.set(account, inFlight);
    this.#most.set(account, Math.max(inFlight, this.mostAtOnce(account)));
    await pause(TAKES);
    this.#inFlight.set(account, (this.#inFlight.get(account) ?? 1) - 1);
    if (this.closed.has(account)) return [422, { reason: `account ${account} is closed` }];
    const first = this.effects.find((effect) => effect.key === key);
    if (first !== undefined) return [200, { receipt: first.receipt }];
    const receipt = `${what}-${this.effects.length + 1}`;
    this.effects.push({ what, account, key, receipt });
    return [200, { receipt }];
  }
}

/** Sends a request and returns its receipt. The same key returns the same receipt. */
export async function order(url: string, what: string, account: string, key: string): Promise<string> {
  const request = { method: 'POST', headers: { 'idempotency-key': key }, body: JSON.stringify({ account }) };
  const answer = await fetch(`${url}/${what}`, request).catch((cause: unknown) => {
    throw new Failure(String(cause), { kind: 'downstream_away' });
  });
  const { receipt = '', reason = '' } = (await answer.json()) as { receipt?: string; reason?: string };
  if (answer.status === 422) throw new Failure(reason, { kind: 'downstream_refused', retryable: false });
  return receipt;
}
