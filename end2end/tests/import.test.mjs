// The main job, end to end: a real table of 10,000 rows, 24 of them bad, dropped into the page and watched until it
// completes; with and without JavaScript; through reloads, tabs and killed servers.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { spoil } from '../../examples/import/spoil.mjs';
import { BIRD_STRIKES, accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const ROWS = 10_000;

/** The table with bad rows, and their positions. */
async function spoiled() {
  return spoil(await readFile(BIRD_STRIKES));
}

/** Chooses a file on `/imports/new`, shows its first rows, and starts the import. Returns the job's id. */
async function upload(page, name, buffer, type = 'import') {
  await page.goto('/imports/new');
  await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/csv', buffer });
  await page.locator('[data-upload="stored"]').waitFor();
  await page.selectOption('select[name=type]', type);
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  return page.url().split('/').pop();
}

/** The number beside the bar. */
const number = (page) => page.locator('.hero .meter-number').textContent();

/** Resolves with the number once it differs from `before`. */
async function moved(page, before) {
  await page.waitForFunction((old) => document.querySelector('.hero .meter-number')?.textContent !== old, before);
  return number(page);
}

/** Rows of a failure CSV as objects. The cells of this table contain quotes only where the test put them. */
function parse(csv) {
  const rows = [];
  let row = [''];
  let quoted = false;
  for (let at = 0; at < csv.length; at += 1) {
    const c = csv[at];
    if (quoted && c === '"' && csv[at + 1] === '"') {
      row[row.length - 1] += '"';
      at += 1;
    } else if (c === '"') quoted = !quoted;
    else if (quoted) row[row.length - 1] += c;
    else if (c === ',') row.push('');
    else if (c === '\n') {
      rows.push(row);
      row = [''];
    } else if (c !== '\r') row[row.length - 1] += c;
  }
  const [header, ...rest] = rows;
  return rest.map((cells) => Object.fromEntries(header.map((name, at) => [name, cells[at]])));
}

/** The list of failures contains exactly the bad rows, each with its line, code and reason. */
function assertFailures(csv, bad) {
  const rows = parse(csv);
  assert.deepEqual(rows.map((row) => Number(row._line)), bad.map(({ line }) => line));
  for (const [at, { code, line }] of bad.entries()) {
    if (code) assert.equal(rows[at]._code, code, `line ${line}`);
    assert.match(rows[at]._problem, new RegExp(`[Ll]ine ${line}\\b`), 'the reason names the line');
    assert.match(rows[at]._problem, /column|field|byte|quote/i, 'the reason names the place in the line');
  }
}

/** One item for each row of the table, whatever happened. */
async function assertOneItemPerRow(server, bad) {
  const [[items, rows, outcomes, dead]] = await server.query(
    `select count(*), count(distinct row), (select count(*) from outcome), (select count(*) from outcome where state = 2) from item`,
  );
  assert.deepEqual([items, rows, outcomes, dead].map(Number), [ROWS, ROWS, ROWS, bad.length]);
}

test('a dropped file is watched to its end through a reload, a second tab and a killed server', async (t) => {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/strikes', { executor: { kind: 'pull' } });
  const { csv, bad } = await spoiled();
  const page = await openPage(server);
  page.tolerate(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
  const job = await upload(page, 'bird-strikes.csv', csv, 'strikes');
  await whenLive(page);

  // The worker continues when the bar has moved, so every value is seen; ten batches of a thousand.
  const worker = new Worker(server, 'strikes');
  const seen = new Set();
  let second = null;
  for (let batch = 0; ; batch += 1) {
    const held = await worker.claim(1_000);
    if (held.length === 0) break;
    if (batch === 6) {
      // Killed with a thousand open assignments: they are still valid after the restart.
      await server.kill();
      await server.start();
    }
    const before = await number(page);
    const answer = await worker.finish(held);
    assert.ok(answer.endings.every((ending) => ending.status === 200));
    if (batch === 3) await page.reload();
    if (batch === 4) {
      second = await openPage(server, { path: `/imports/${job}` });
      second.tolerate(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
      await whenLive(second);
    }
    seen.add(batch === 3 ? await number(page) : await moved(page, before));
    if (batch === 2) await screenshot(page, 'import-running');
    if ((await number(page)) === '100%') break;
  }
  assert.ok(seen.size >= 5, `the bar showed ${[...seen]}`);
  for (const tab of [page, second]) {
    await whenLive(tab, 'finished');
    assert.equal(await number(tab), '100%');
    await tab.getByText(`${bad.length} rows need your attention`).first().waitFor();
  }
  await assertOneItemPerRow(server, bad);

  await page.reload();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Failed rows, CSV' }).click();
  assertFailures(await readFile(await (await download).path(), 'utf8'), bad);
  await screenshot(page, 'import-finished');
  await accessible(page);
});

test('a server killed while it cuts the file leaves one item per row', async (t) => {
  const server = await startServer(t);
  const { csv, bad } = await spoiled();
  const page = await openPage(server);
  page.tolerate(/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/);
  const job = await upload(page, 'bird-strikes.csv', csv);
  // Three times in the middle: each time as soon as there is more progress.
  let items = 0;
  let inTheMiddle = 0;
  for (let kills = 0; kills < 3; kills += 1) {
    for (;;) {
      const [[now]] = await server.query('select count(*) from item');
      if (Number(now) > items || Number(now) === ROWS) {
        items = Number(now);
        break;
      }
    }
    if (items < ROWS) inTheMiddle += 1;
    await server.kill();
    await server.start();
  }
  assert.ok(inTheMiddle > 0, 'the file was cut before the first kill, so nothing was tested');
  await whenLive(page, 'finished');
  assert.equal(await number(page), '100%');
  await assertOneItemPerRow(server, bad);
  const failures = await server.api('GET', `/jobs/${job}/failures?format=csv`);
  assertFailures(await failures.text(), bad);
});

test('without JavaScript: upload, progress on reload, downloads', async (t) => {
  const server = await startServer(t);
  const { csv, bad } = await spoiled();
  const page = await openPage(server, { javaScriptEnabled: false, path: '/imports/new' });
  await page.setInputFiles('input[type=file]', { name: 'bird-strikes.csv', mimeType: 'text/csv', buffer: csv });
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  while ((await number(page)) !== '100%') await page.reload();
  await screenshot(page, 'import-without-javascript');
  const href = await page.getByRole('link', { name: 'Failed rows, CSV' }).getAttribute('href');
  const failures = await page.request.get(href);
  assertFailures(await failures.text(), bad);
  const results = await page.request.get(href.replace('failures', 'results'));
  assert.equal(parse(await results.text()).length, ROWS - bad.length);

  await page.goto('/imports');
  await page.getByRole('link', { name: 'bird-strikes.csv', exact: true }).waitFor();
});

test('a file that cannot be imported is refused on the same page, in words', async (t) => {
  const server = await startServer(t, { TREELINE_QUOTA_STORED_BYTES: '2KiB' });
  const page = await openPage(server, { javaScriptEnabled: false });
  page.tolerate(/status of 4(22|15|13)/);
  for (const [name, content, words] of [
    ['header-only.csv', 'a,b\n', /no rows|no data rows/i],
    ['empty.csv', '', /empty|no rows|no data rows/i],
    ['double.csv', 'a,a\n1,2\n', /header|column/i],
  ]) {
    await page.goto('/imports/new');
    await page.setInputFiles('input[type=file]', { name, mimeType: 'text/csv', buffer: Buffer.from(content) });
    await page.getByRole('button', { name: 'Upload' }).click();
    await page.locator('.notice-bad').waitFor();
    assert.match(await page.locator('main').innerText(), words, name);
    assert.ok(!(await page.locator('#start:enabled').count()), 'nothing starts');
    await page.locator('main a[href="/imports/new"], main input[type=file]').first().waitFor();
  }
  await screenshot(page, 'import-refused');

  // A file over the quota is not sent again and again.
  const scripted = await openPage(server, { path: '/imports/new' });
  scripted.tolerate(/status of 429/);
  await scripted.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  await scripted.setInputFiles('input[type=file]', { name: 'large.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n'.repeat(1_000)) });
  await scripted.getByText('This file would not fit').waitFor();
});
