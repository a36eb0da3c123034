// Shortest path through the front door.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPage, screenshot, startServer } from '../harness.mjs';

test('the printed link signs in, once, and leads to the uploads', async (t) => {
  const server = await startServer(t);
  const link = await server.signInLink;
  assert.ok(link.startsWith(`${server.url}/sign-in/`), link);

  const page = await openPage(server, { signedIn: false, path: link });
  await screenshot(page, 'sign-in');
  await page.locator('main form button').click();
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
  const response = await page.goto('/imports');
  assert.equal(response.status(), 200);
  assert.equal(await page.locator('h1').count(), 1);
  await screenshot(page, 'imports-empty');

  const policy = response.headers()['content-security-policy'] ?? '';
  assert.match(policy, /script-src 'nonce-/);
  assert.doesNotMatch(policy, /unsafe-inline/);

  const again = await openPage(server, { signedIn: false });
  again.tolerate(/status of 410/);
  await again.goto(link);
  assert.equal(await again.locator('main form button').count(), 0, 'a used link has no button');
});

test('nothing is open to a stranger', async (t) => {
  const server = await startServer(t);
  for (const [path, status] of [['/imports', 303], ['/jobs', 303], ['/api/v1/jobs', 401]]) {
    const response = await fetch(server.url + path, { redirect: 'manual' });
    assert.equal(response.status, status, path);
  }
  const bad = await fetch(`${server.url}/api/v1/jobs`, { headers: { authorization: 'Bearer nonsense' } });
  assert.equal(bad.status, 401);
  assert.equal(bad.headers.get('content-type'), 'application/problem+json');
});

test('files of the site are packed, kept for ever, and missing ones are missing', async (t) => {
  const server = await startServer(t);
  const page = await openPage(server, { path: '/imports' });
  const style = await page.locator('link[rel=stylesheet]').first().getAttribute('href');
  const answer = await fetch(server.url + style, { headers: { 'accept-encoding': 'br' } });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-encoding'), 'br');
  assert.match(answer.headers.get('cache-control'), /immutable/);
  const missing = await fetch(server.url + style.replace('treeline.css', 'missing.css'));
  assert.equal(missing.status, 404);
  // A page of another version asks during an upgrade: what fits every page is served, but not stored.
  const ofOther = (name) => fetch(`${server.url}/pkg/0000000000000000/${name}`);
  for (const name of ['treeline.css', 'page.js', 'fonts/sans.woff2']) {
    const other = await ofOther(name);
    assert.deepEqual([other.status, other.headers.get('cache-control')], [200, 'no-store'], name);
  }
  for (const name of ['treeline.js', 'treeline_bg.wasm']) assert.equal((await ofOther(name)).status, 404, name);
});
