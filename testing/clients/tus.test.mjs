// Resumable uploads with tus-js-client: broken off and resumed, with a method override, in parallel, given up.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import * as tus from 'tus-js-client';

const base = process.env.TREELINE_URL;
const headers = { Authorization: `Bearer ${process.env.TREELINE_TOKEN}` };
const endpoint = `${base}/api/v1/uploads/resumable`;
const file = Buffer.from(Array.from({ length: 40_000 }, (_, n) => `{"n":${n},"text":"${'x'.repeat(40)}"}\n`).join(''));

/** Sends the file; `stopAt` breaks off behind so many bytes. Gives the upload's address, or what went wrong. */
function send(options, stopAt = Infinity) {
  return new Promise((resolve, reject) => {
    const upload = new tus.Upload(file, {
      endpoint,
      headers,
      chunkSize: 512 << 10,
      retryDelays: null,
      metadata: { filename: 'rows.ndjson' },
      ...options,
      onError: reject,
      onSuccess: () => resolve(upload.url),
      onChunkComplete: (_, accepted) => {
        if (accepted >= stopAt) void upload.abort().then(() => resolve(upload.url));
      },
    });
    upload.start();
  });
}

async function isWhole(place) {
  const id = place.split('/').pop();
  const upload = await (await fetch(`${base}/api/v1/uploads/${id}`, { headers })).json();
  assert.equal(upload.filename, 'rows.ndjson');
  assert.equal(upload.sha256, createHash('sha256').update(file).digest('hex'));
}

test('what the server can do is asked without a credential', async () => {
  const answer = await fetch(endpoint, { method: 'OPTIONS' });
  assert.equal(answer.status, 204);
  assert.equal(answer.headers.get('tus-version'), '1.0.0');
  assert.match(answer.headers.get('tus-extension'), /creation/);
});

test('a file that broke off goes on where it ended', async () => {
  const place = await send({}, 1 << 20);
  const head = await fetch(place, { method: 'HEAD', headers });
  assert.ok(Number(head.headers.get('upload-offset')) >= 1 << 20);
  assert.match(head.headers.get('upload-metadata'), /^filename /);
  assert.ok(Date.parse(head.headers.get('upload-expires')) > Date.now());
  assert.equal(await send({ uploadUrl: place }), place);
  await isWhole(place);
});

test('a client that cannot say PATCH says POST', async () => {
  await isWhole(await send({ overridePatchMethod: true, addRequestId: true }));
});

test('bytes beside the creation do no harm', async () => {
  await isWhole(await send({ uploadDataDuringCreation: true }));
});

test('a file in parallel parts is refused before anything is sent', async () => {
  let sent = 0;
  const refused = await send({ parallelUploads: 3, onProgress: (bytes) => (sent = bytes) }).catch((error) => error);
  assert.match(String(refused.message), /400/);
  assert.equal(sent, 0);
});

test('an upload that is given up is gone', async () => {
  const place = await send({}, 512 << 10);
  await tus.Upload.terminate(place, { headers });
  const gone = await fetch(place, { method: 'HEAD', headers });
  assert.equal(gone.status, 404);
  assert.equal(gone.headers.get('tus-resumable'), '1.0.0');
});
