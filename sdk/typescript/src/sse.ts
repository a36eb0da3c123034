const LARGEST_EVENT = 16 * 1024 * 1024;

/** One server-sent event: its name and its data. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
  /** Seconds after which the server wants to be asked again, if it has said so. */
  readonly retry?: number;
}

/** Lines of a stream of bytes, without their ends. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
      if (done) {
        if (rest !== '') yield rest;
        return;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Events of a stream of lines. */
export async function* eventsOf(lines: AsyncIterable<string>): AsyncGenerator<ServerEvent> {
  let name = '';
  let data: string[] = [];
  let size = 0;
  let retry: number | undefined;
  for await (const line of lines) {
    if (line === '') {
      if (data.length > 0) yield { name: name === '' ? 'message' : name, data: data.join('\n'), ...(retry !== undefined && { retry }) };
      [name, data, size] = ['', [], 0];
      continue;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') name = value;
    if (field === 'retry' && /^\d+$/.test(value)) retry = Number(value) / 1_000;
    if (field === 'data') {
      size += value.length;
      if (size > LARGEST_EVENT) throw new RangeError('an event is larger than 16 MiB');
      data.push(value);
    }
  }
}
