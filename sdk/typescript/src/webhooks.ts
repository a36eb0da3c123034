import { InvalidWebhook } from './errors.js';

/** Largest difference between the clock of the sender and ours, in seconds. */
const TOLERANCE = 300;

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const isCoded = secret.startsWith('whsec_');
  const key = isCoded ? Uint8Array.from(atob(secret.slice('whsec_'.length)), (char) => char.charCodeAt(0)) : new TextEncoder().encode(secret);
  if (key.length === 0) throw new RangeError('the secret is empty: anybody could sign with it');
  return key;
}

function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Headers of a request: those of `fetch`, or the object of a Node.js server. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Returns the JSON of a webhook whose signature is valid (Standard Webhooks).
 *
 * `body` must be the text as received. `secret` is one secret or, during a rotation, several. Rejects with
 * `InvalidWebhook` if a header is missing, no signature matches, or the time differs by more than five minutes.
 */
export async function verifyWebhook(
  body: string,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  now: number = Date.now() / 1_000,
): Promise<unknown> {
  const given = (name: string): string => {
    const value = headers instanceof Headers ? headers.get(name) : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
    if (typeof value !== 'string') throw new InvalidWebhook(`expected the header ${name}`);
    return value;
  };
  const [id, timestamp, signatures] = [given('webhook-id'), given('webhook-timestamp'), given('webhook-signature')];
  if (!/^\d+$/.test(timestamp) || Math.abs(now - Number(timestamp)) > TOLERANCE) {
    throw new InvalidWebhook('the webhook is more than five minutes old, or from the future');
  }
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  for (const one of typeof secret === 'string' ? [secret] : secret) {
    const key = await crypto.subtle.importKey('raw', keyOf(one), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    for (const signature of signatures.split(' ')) {
      const [version, value] = signature.split(',', 2);
      const bytes = version === 'v1' && value !== undefined ? decoded(value) : undefined;
      if (bytes !== undefined && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return JSON.parse(body);
    }
  }
  throw new InvalidWebhook('no signature matches');
}
