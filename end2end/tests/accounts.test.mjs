// An admin adds a person; she signs in with her password, uploads and shares; another browser follows the link, sees
// the import live and nothing else; the link is revoked.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const PASSWORD = 'correct horse battery';
const ROWS = 200;

test('an admin lets somebody in, who uploads and shares; a stranger watches until the link is taken back', async (t) => {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/strikes', { executor: { kind: 'pull' } });

  // The admin uses forms without scripts.
  const admin = await openPage(server, { javaScriptEnabled: false, path: '/people' });
  await accessibleWithScript(server, '/people');
  await admin.getByLabel('Name', { exact: true }).fill('Ada Lovelace');
  await admin.getByLabel('Email address').fill('ada@example.com');
  await admin.getByLabel('Password').fill(PASSWORD);
  await admin.getByRole('button', { name: 'Invite' }).click();
  await admin.getByRole('heading', { level: 1, name: 'Ada Lovelace' }).waitFor();
  await screenshot(admin, 'person');
  await admin.goto('/people');
  await admin.getByRole('link', { name: 'Ada Lovelace' }).waitFor();
  await screenshot(admin, 'people');

  // Ada follows a link that somebody sent her, through the sign-in page.
  const ada = await openPage(server, { signedIn: false, path: '/imports/new' });
  assert.match(ada.url(), /\/sign-in\?back=/);
  await accessible(ada);
  ada.tolerate(/status of 4(22|03)/);
  await ada.getByLabel('Email address').fill('ada@example.com');
  await ada.getByLabel('Password').fill('wrong');
  await ada.getByRole('button', { name: 'Sign in' }).click();
  await ada.getByText('Email or password is wrong').waitFor();
  assert.equal(await ada.getByLabel('Email address').inputValue(), 'ada@example.com');
  await screenshot(ada, 'sign-in-refused');
  await ada.getByLabel('Password').fill(PASSWORD);
  await ada.getByRole('button', { name: 'Sign in' }).click();
  // An admin chose that password: she chooses her own before anything else opens.
  await ada.waitForURL(/\/account$/);
  await ada.getByLabel('Current password').fill(PASSWORD);
  await ada.getByLabel('New password').fill(`${PASSWORD} staple`);
  await ada.getByRole('button', { name: 'Change password' }).click();
  await ada.getByText('Your password is set').waitFor();
  await ada.goto('/people');
  await ada.getByRole('heading', { name: 'You cannot see this page' }).waitFor();

  const lines = Array.from({ length: ROWS }, (_, n) => `${n},bird ${n}`);
  await ada.goto('/imports/new');
  await ada.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  const file = { name: 'birds.csv', mimeType: 'text/csv', buffer: Buffer.from(`id,species\n${lines.join('\n')}\n`) };
  await ada.setInputFiles('input[type=file]', file);
  await ada.locator('[data-upload="stored"]').waitFor();
  await ada.selectOption('select[name=type]', 'strikes');
  await ada.locator('#start').click();
  await ada.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  const job = ada.url().split('/').pop();
  await whenLive(ada);
  await ada.locator('#create-link').dblclick();
  const link = await ada.getByLabel('Link', { exact: true }).inputValue();
  assert.ok(link.startsWith(`${server.url}/s/`), link);
  await ada.getByRole('button', { name: 'Copy' }).waitFor();
  await screenshot(ada, 'share-made');
  await accessible(ada);
  await ada.reload();
  assert.equal(await ada.getByLabel('Link', { exact: true }).count(), 0, 'the link is shown once');
  assert.equal(await ada.locator('.link-line').count(), 1, 'a double click creates one link');
  await ada.getByText(`${ROWS} rows wait. Nobody has begun to work on files of this kind.`).waitFor();

  // Another browser sees the rows counted live.
  const guest = await openPage(server, { signedIn: false, path: link });
  guest.tolerate(/status of 4(01|04|10)/);
  await whenLive(guest);
  await guest.getByRole('heading', { level: 1, name: /birds\.csv/ }).waitFor();
  await accessible(guest);
  const worker = new Worker(server, 'strikes');
  const held = await worker.claim(ROWS / 2);
  assert.equal(held.length, ROWS / 2);
  await worker.finish(held);
  await guest.waitForFunction(() => document.querySelector('.hero .meter-number')?.textContent === '50%');
  await guest.reload();
  await whenLive(guest);
  await guest.locator('a[href*="/results?format=csv"]').waitFor();
  await screenshot(guest, 'shared');
  assert.equal(await guest.locator('header nav, a[href^="/items"], a[href^="/jobs"]').count(), 0);
  const results = await guest.evaluate(async (id) => (await fetch(`/api/v1/jobs/${id}/results?format=csv`)).text(), job);
  assert.equal(results.trim().split('\n').length, ROWS / 2 + 1);
  for (const closed of [`/api/v1/jobs/${job}`, '/api/v1/jobs', `/api/v1/items?job=${job}`, '/api/v1/me']) {
    const status = await guest.evaluate(async (path) => (await fetch(path)).status, closed);
    assert.equal(status, 401, closed);
  }
  await guest.goto(`/imports/${job}`);
  assert.match(guest.url(), /\/sign-in/);
  await guest.goto(link);
  await whenLive(guest);

  // Revoked: the open page stops, and the link shows nothing.
  await ada.locator('summary', { hasText: 'Revoke this link' }).click();
  await ada.getByRole('button', { name: 'Revoke this link' }).click();
  await ada.getByText('Visible to you, support, and administrators.').waitFor();
  await guest.waitForFunction(() => !document.querySelector('[data-live="live"]'), null, { timeout: 60_000 });
  await guest.goto(link);
  await guest.getByRole('heading', { name: 'This link shows nothing' }).waitFor();
  await screenshot(guest, 'share-gone');

  // Her account: her sessions, and how they end.
  await ada.locator('#account-menu > summary').click();
  await ada.getByRole('link', { name: 'Account', exact: true }).click();
  await ada.getByRole('heading', { name: 'Account' }).waitFor();
  await screenshot(ada, 'account');
  await accessible(ada);
  await admin.goto('/people');
  await admin.getByRole('link', { name: 'Ada Lovelace' }).click();
  await admin.locator('summary', { hasText: 'Deactivate' }).click();
  await admin.getByRole('button', { name: 'Deactivate' }).click();
  await admin.getByText('They cannot sign in').waitFor();
  await ada.goto('/imports');
  assert.match(ada.url(), /\/sign-in/);
  await admin.goto('/audit');
  await admin.getByText('Deactivated account').first().waitFor();
  await screenshot(admin, 'audit');
  await accessibleWithScript(server, '/audit');
  await accessibleWithScript(server, '/services');
});

/** axe needs scripts, which the admin of this test does not have. */
async function accessibleWithScript(server, path) {
  const page = await openPage(server, { path });
  await accessible(page);
}
