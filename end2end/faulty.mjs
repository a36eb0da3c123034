// Proxy between a browser and a server: forwards everything, but event streams get the faults that a test sets.
import http from 'node:http';
import { once } from 'node:events';

const STREAM = /\/events(\?|$)/;

/** One proxied stream; frames are events as text, without the blank line that ends them. */
class Stream {
  held = false;
  constructor(response, upstream) {
    this.response = response;
    this.upstream = upstream;
  }

  send(text) {
    if (!this.held) this.response.write(text);
  }

  cut() {
    this.upstream.destroy();
    this.response.destroy();
  }
}

export class FaultyProxy {
  /** Streams that are open now. */
  streams = new Set();
  /** Number of forwarded streams. */
  passed = 0;
  /** Number of requested streams, whatever their outcome. */
  requests = 0;
  /** Faults for the next requests for a stream: each a function of the response. */
  refusals = [];
  /** Transformation of events: `(frame, stream)` to the text that is forwarded. */
  mangle = (frame) => `${frame}\n\n`;
  #waiting = [];

  /** @param {import('node:test').TestContext} t */
  static async start(t, server) {
    const proxy = new FaultyProxy();
    proxy.server = server;
    const listener = http.createServer((request, response) => proxy.#pass(request, response));
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    proxy.url = `http://127.0.0.1:${listener.address().port}`;
    t.after(() => {
      listener.close();
      listener.closeAllConnections();
    });
    return proxy;
  }

  #pass(request, response) {
    const isStream = STREAM.test(request.url);
    if (isStream) {
      this.requests += 1;
      this.#tell();
      const refusal = this.refusals.shift();
      if (refusal) return refusal(response);
    }
    const target = new URL(this.server.url);
    const options = { host: target.hostname, port: target.port, method: request.method, path: request.url, headers: request.headers };
    const upstream = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      if (!isStream || answer.statusCode !== 200) return answer.pipe(response);
      response.flushHeaders();
      this.#follow(new Stream(response, upstream), answer);
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    request.pipe(upstream);
  }

  #follow(stream, answer) {
    this.streams.add(stream);
    this.passed += 1;
    this.#tell();
    let rest = '';
    answer.setEncoding('utf8');
    answer.on('data', (data) => {
      const frames = (rest + data).split('\n\n');
      rest = frames.pop();
      for (const frame of frames) stream.send(this.mangle(frame, stream));
    });
    answer.on('end', () => stream.response.end());
    const over = () => {
      this.streams.delete(stream);
      this.#tell();
    };
    answer.on('close', over);
    answer.on('error', over);
    stream.response.on('close', over);
  }

  #tell() {
    this.#waiting = this.#waiting.filter(({ holds, done }) => !(holds() && (done(), true)));
  }

  /** Waits until a condition holds for the streams. */
  async until(holds) {
    if (!holds()) await new Promise((done) => this.#waiting.push({ holds, done }));
  }

  /** Breaks every open stream. */
  cut() {
    for (const stream of this.streams) stream.cut();
  }
}

/** Response of a load balancer without a backend. */
export const badGateway = (response) => response.writeHead(502).end('nobody is there');
/** A connection that closes before a response. */
export const hangUp = (response) => response.destroy();
/** Response of the server when it has too many streams. */
export const busy = (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end('event: busy\ndata: {}\n\n');
