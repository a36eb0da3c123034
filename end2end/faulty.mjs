// What may stand between a browser and a server: passes everything on, except that event streams suffer what a story says.
import http from 'node:http';
import { once } from 'node:events';

const STREAM = /\/events(\?|$)/;

/** One stream on its way through; frames are events as text, without the blank line that ends them. */
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
  /** How many were passed on so far. */
  passed = 0;
  /** How many were asked for so far, whatever became of them. */
  asked = 0;
  /** What the next requests for a stream meet: each a function of the response. */
  refusals = [];
  /** What becomes of an event: `(frame, stream)` to the text that is sent on. */
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
      this.asked += 1;
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

  /** Waits until something holds of the streams. */
  async until(holds) {
    if (!holds()) await new Promise((done) => this.#waiting.push({ holds, done }));
  }

  /** Breaks every open stream. */
  cut() {
    for (const stream of this.streams) stream.cut();
  }
}

/** An answer that a load balancer gives while nobody is behind it. */
export const badGateway = (response) => response.writeHead(502).end('nobody is there');
/** A connection that ends before any answer. */
export const hangUp = (response) => response.destroy();
/** What the server says when it has too many streams. */
export const busy = (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end('event: busy\ndata: {}\n\n');
