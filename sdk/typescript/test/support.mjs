// A real server: TREELINE_SERVER_BIN, with its private PostgreSQL or DATABASE_URL.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
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
  const env = {
    ...process.env,
    TREELINE_LISTEN: '127.0.0.1:0',
    TREELINE_DATA_DIR: await mkdtemp(path.join(tmpdir(), 'treeline-')),
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
  };
  return { url, token, stop };
}
