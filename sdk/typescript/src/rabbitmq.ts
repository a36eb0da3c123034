import { messageOf } from './client.js';
import { backoff, deferred, sleep, within } from './retry.js';

/** Seconds within which RabbitMQ must answer while the worker connects. */
const CONNECT_TIMEOUT = 5;
/** Seconds, at least, that a message waits for a free slot before it goes to another worker. */
const FULL_TIMEOUT = 1;

/** Names of items that RabbitMQ has announced. */
export interface Wakes {
  /** True while messages arrive, or will as soon as `take` waits for one. */
  readonly isAttached: boolean;
  /** Up to `most` names; none after `seconds` without a message, when `other` resolves, or when messages no longer arrive. */
  take(most: number, seconds: number, other: Promise<void>): Promise<string[]>;
}

/** What is used of the package `amqplib`. */
interface Amqp {
  connect(url: string, options: { timeout: number }): Promise<{
    createChannel(): Promise<{
      prefetch(count: number): Promise<unknown>;
      consume(queue: string, receive: (message: { content: Uint8Array } | null) => void): Promise<unknown>;
      ack(message: { content: Uint8Array }): void;
      close(): Promise<void>;
    }>;
    on(event: 'close' | 'error', listener: (cause?: unknown) => void): unknown;
    close(): Promise<void>;
  }>;
}

/**
 * Listens to the queues `treeline.items.TYPE` until `over` is aborted. At most `most` messages of each are here at once, so that other
 * workers get the rest, and none while the worker has no free slot. A message is acknowledged when its item is claimed: it is
 * a wake-up only, and a lost one costs time, never work.
 */
export function listen(url: string, types: readonly string[], most: number, over: AbortSignal, warn: (message: string) => void): Wakes {
  const names: { readonly id: string; readonly acknowledge: () => void }[] = [];
  let arrived = deferred();
  /** Resolved when the worker waits for messages, or the connection is lost. */
  let wanted = deferred();
  let isAttached = false;
  const run = async (): Promise<void> => {
    const module = 'amqplib';
    const amqp = (await import(module)) as Amqp & { default?: Amqp };
    for (let failures = 0; !over.aborted; failures += 1) {
      try {
        const connection = await (amqp.default ?? amqp).connect(url, { timeout: CONNECT_TIMEOUT * 1_000 });
        try {
          const lost = new AbortController();
          const lose = (): void => {
            lost.abort();
            wanted.resolve();
          };
          connection.on('close', lose);
          connection.on('error', lose);
          over.addEventListener('abort', lose, { once: true });
          if (over.aborted) lose();
          while (!lost.signal.aborted) {
            const channel = await connection.createChannel();
            await channel.prefetch(most);
            for (const type of types) {
              await channel.consume(`treeline.items.${type}`, (message) => {
                // The broker has canceled the consumer, for example because its queue was deleted.
                if (message === null) return void connection.close().catch(() => undefined);
                const id = idOf(message.content);
                if (id === undefined) {
                  warn('RabbitMQ delivered something that is not a wake-up');
                  channel.ack(message);
                  return;
                }
                names.push({ id, acknowledge: () => acknowledge(() => channel.ack(message)) });
                arrived.resolve();
              });
            }
            failures = 0;
            isAttached = true;
            for (let oldest; !lost.signal.aborted && (oldest === undefined || oldest !== names[0]); ) {
              oldest = names[0];
              await sleep(FULL_TIMEOUT, lost.signal).catch(() => undefined);
            }
            if (lost.signal.aborted) break;
            // The worker is at capacity: the broker gives the messages of a closed channel to other workers.
            names.length = 0;
            wanted = deferred();
            channel.close().catch(() => undefined);
            await wanted.promise;
          }
        } finally {
          // Also after a failure: an open connection would keep the process alive.
          await connection.close().catch(() => undefined);
        }
      } catch (cause) {
        warn(`RabbitMQ is not available: ${messageOf(cause)}`);
      }
      isAttached = false;
      // They are delivered again.
      names.length = 0;
      arrived.resolve();
      await sleep(backoff(failures), over).catch(() => undefined);
    }
  };
  run().catch((cause: unknown) => warn(`wake-ups need the package amqplib: ${messageOf(cause)}`));
  return {
    get isAttached() {
      return isAttached;
    },
    async take(most, seconds, other) {
      if (names.length === 0 && seconds > 0) {
        wanted.resolve();
        arrived = deferred();
        await within(seconds, Promise.race([arrived.promise, other]));
      }
      return names.splice(0, most).map(({ id, acknowledge }) => {
        acknowledge();
        return id;
      });
    },
  };
}

/** Acknowledges a message, unless its channel is closed: then it is delivered again. */
function acknowledge(send: () => void): void {
  try {
    send();
  } catch {
    // The worker reconnects.
  }
}

function idOf(content: Uint8Array): string | undefined {
  try {
    const { item_id: id } = JSON.parse(new TextDecoder().decode(content)) as { item_id?: unknown };
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}
