// A real server: TREELINE_SERVER_BIN, with its private PostgreSQL or DATABASE_URL.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** The files of tests follow each other on one database, whose secrets have one key. */
const SECRET_KEY = Buffer.alloc(32, 7).toString('base64');

export async function collect(values) {
  const all = [];
  for await (const value of values) all.push(value);
  return all;
}

/** Starts a server on a free port. `AMQP_URL` of the environment is used too. */
export async function startServer() {
  const program = process.env.TREELINE_SERVER_BIN;
  assert.ok(program, 'TREELINE_SERVER_BIN is the path of treeline-server: see README.md');
  const token = randomBytes(32).toString('hex');
  const folder = await mkdtemp(path.join(tmpdir(), 'treeline-'));
  const env = {
    ...process.env,
    TREELINE_LISTEN: '127.0.0.1:0',
    TREELINE_DATA_DIR: folder,
    TREELINE_BOOTSTRAP_TOKEN: token,
    TREELINE_CALLBACK_ALLOW: '127.0.0.1',
    TREELINE_SECRET_KEY: SECRET_KEY,
  };
  const server = spawn(program, [], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  server.stderr.on('data', (bytes) => (said += bytes));
  const url = await new Promise((resolve, reject) => {
    server.stdout.on('data', (bytes) => {
      said += bytes;
      const found = /listening on (http\S+)/.exec(said);
      if (found) resolve(found[1]);
    });
    server.on('exit', () => reject(new Error(`the server did not start: ${said}`)));
  });
  const stop = async () => {
    const ended = new Promise((resolve) => server.on('exit', resolve));
    server.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  return { url, token, stop };
}

/**
 * Starts a proxy in front of a server. `intercept` gets the path and the body of a request, and returns the body to pass
 * on, a status to answer with instead, null for a response that breaks off, or `{ lost: body }` for a request that is passed
 * on and whose response breaks off.
 */
export async function startProxy(target, intercept) {
  const proxy = createServer(async (request, response) => {
    let text = '';
    for await (const piece of request) text += piece;
    const body = intercept(request.url, JSON.parse(text));
    if (body === null) {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{', () => response.destroy());
    } else if (typeof body === 'number') {
      response.writeHead(body, { 'content-type': 'text/plain' }).end(`${body} of the proxy`);
    } else {
      const isLost = body.lost !== undefined;
      const { authorization } = request.headers;
      const headers = { authorization, 'content-type': 'application/json' };
      const passed = await fetch(target + request.url, { method: 'POST', headers, body: JSON.stringify(isLost ? body.lost : body) });
      const answer = await passed.text();
      if (isLost) response.writeHead(200, { 'content-length': '100000' }).write('{', () => response.destroy());
      else response.writeHead(passed.status, { 'content-type': passed.headers.get('content-type') ?? '' }).end(answer);
    }
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => proxy.once('listening', resolve));
  const stop = () => {
    proxy.close();
    proxy.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${proxy.address().port}`, stop };
}
