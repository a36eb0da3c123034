// The pages of imports: from the printed link to a finished sample, files that are dropped here and there, a file that is
// shown whole before it starts, and an import that is canceled.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';

const awake = (page) => page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });

/** Drops files, by name and content, on the page. Says whether the browser would have opened them. */
async function drop(page, files) {
  const data = await page.evaluateHandle((files) => {
    const data = new DataTransfer();
    for (const [name, content] of files) data.items.add(new File([content], name, { type: 'text/csv' }));
    return data;
  }, files);
  await page.dispatchEvent('h1', 'dragover', { dataTransfer: data });
  await page.dispatchEvent('h1', 'drop', { dataTransfer: data });
}

test('whoever follows the printed link has the sample imported within a minute', async (t) => {
  const server = await startServer(t);
  const begun = Date.now();
  const page = await openPage(server, { signedIn: false, path: await server.signInLink });
  await page.locator('main form button').click();
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
  await page.getByRole('link', { name: 'Imports' }).first().click();
  await page.locator('#sample').click();
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await whenLive(page, 'finished');
  await page.getByText('11 of 12 rows are imported. 1 row needs your attention.').first().waitFor();
  await page.locator('#fix a').first().waitFor();
  assert.ok(Date.now() - begun < 60_000);
  await accessible(page);
});

test('files that are dropped at once are uploaded in turn, and each is reviewed by itself', async (t) => {
  const server = await startServer(t);
  const page = await openPage(server, { path: '/imports' });
  await awake(page);
  await drop(page, [['first.csv', 'name\nann\n'], ['empty.csv', ''], ['second.csv', 'name\nbob\n']]);
  await page.locator('.drop-queue [data-upload="sent"]').nth(1).waitFor();
  await page.locator('.drop-queue').getByText('The file is empty.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Stop' }).count(), 0);
  await accessible(page);
  await screenshot(page, 'imports-several-files');
  await page.getByRole('link', { name: 'Review rows of second.csv' }).click();
  await page.locator('[data-upload="stored"]').waitFor();
  await page.getByText('second.csv').first().waitFor();
  assert.equal(await page.locator('#start').innerText(), 'Import 1 row');
  // Dropped where nothing takes it: the upload opens, not the file.
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await drop(page, [['third.csv', 'name\ncy\n']]);
  await page.waitForURL(/\/imports\/new$/);
});

test('without JavaScript several files are listed, each with its review', async (t) => {
  const server = await startServer(t);
  const page = await openPage(server, { javaScriptEnabled: false, path: '/imports/new' });
  const file = (name, text) => ({ name, mimeType: 'text/csv', buffer: Buffer.from(text) });
  await page.setInputFiles('input[type=file]', [file('first.csv', 'name\nann\n'), file('second.csv', 'name\nbob\n')]);
  await page.getByRole('button', { name: 'Upload', exact: true }).click();
  await page.getByRole('heading', { name: 'Review files' }).waitFor();
  await screenshot(page, 'imports-several-files-without-javascript');
  await page.getByRole('link', { name: 'Review rows of first.csv' }).click();
  await page.getByText('first.csv').first().waitFor();
});

test('first rows are shown with all columns, and choices show them anew', async (t) => {
  const server = await startServer(t);
  const page = await openPage(server, { path: '/imports/new' });
  await awake(page);
  const names = Array.from({ length: 60 }, (_, n) => `column_${n + 1}`);
  const row = (line, width) => Array.from({ length: width }, (_, n) => `${line}/${n + 1}`).join(';');
  const lines = Array.from({ length: 30 }, (_, n) => row(n + 2, n === 3 ? 61 : 60));
  const csv = `${names.join(';')}\n${lines.join('\n')}\n`;
  await page.setInputFiles('input[type=file]', { name: 'wide.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
  await page.locator('[data-upload="stored"]').waitFor();
  const table = page.locator('.sheet');
  assert.deepEqual((await table.locator('thead th').allInnerTexts()).slice(2, 62), names);
  assert.equal(await table.locator('tbody tr:not(.row-why)').count(), 30);
  await table.getByText('5/61', { exact: true }).waitFor();
  // Those with a problem come first; the others are a click away.
  assert.equal(await table.locator('tbody tr:visible').count(), 1);
  await page.locator('#row-filter').getByText('All').click();
  assert.equal(await table.locator('tbody tr:visible').count(), 30);
  // The header stays in sight while the rows move below it.
  const head = table.locator('thead th').nth(1);
  const before = await head.boundingBox();
  await page.locator('.sheet-wrap').evaluate((box) => box.scrollTo(0, 300));
  assert.ok(Math.abs((await head.boundingBox()).y - before.y) < 2);
  await page.selectOption('#header', 'no');
  await table.locator('tbody tr').first().getByText('column_1', { exact: true }).waitFor();
  await page.selectOption('#delimiter', '|');
  await table.locator('thead th').nth(3).waitFor({ state: 'detached' });
  assert.match(page.url(), /upload_id=.*delimiter=%7C/);
  await screenshot(page, 'import-wide');
  await accessible(page);
});

test('an import is canceled from its own page', async (t) => {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/slow', { executor: { kind: 'pull' } });
  const page = await openPage(server, { path: '/imports/new' });
  await awake(page);
  await page.setInputFiles('input[type=file]', { name: 'wrong.csv', mimeType: 'text/csv', buffer: Buffer.from('name\nann\nbob\n') });
  await page.locator('[data-upload="stored"]').waitFor();
  await page.selectOption('#type', 'slow');
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await whenLive(page);
  await page.getByText('Waiting to start: 2 rows.').waitFor();
  await page.locator('#cancel summary').click();
  await accessible(page);
  await page.locator('#cancel button').click();
  await page.getByText('Canceled after 0 of 2 rows.').first().waitFor();
  assert.equal(await page.locator('#cancel').count(), 0);
});
