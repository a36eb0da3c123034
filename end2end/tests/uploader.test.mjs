// A person with a spreadsheet, from sign-in to sign-out: an upload over a connection that is cut twice, a column that
// does not match, the bar until the end, rows corrected on the page and in a list, downloaded results, a link for a
// colleague, the same file uploaded again on another day; and all of it without JavaScript.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { holds, openPage, screenshot, signOut, startServer, whenLive } from '../harness.mjs';

const PASSWORD = 'correct horse battery';
const ROWS = 2_500;
/** Lines whose amount is no number; the header is line 1. */
const BAD = [3, 10, 700, 1_900];
const MIB = 1 << 20;

/** About ten megabytes of invoices. */
function invoices() {
  const note = 'n'.repeat(4_000);
  const row = (line) => `${line},Customer ${line},${BAD.includes(line) ? '12 CHF' : `${line}.50`},${note}`;
  return `id,customer,amount,note\n${Array.from({ length: ROWS }, (_, at) => row(at + 2)).join('\n')}\n`;
}

/** A server with a type that wants numbers, and somebody who may upload. */
async function start(t) {
  const server = await startServer(t);
  const text = { type: 'string' };
  const properties = { id: text, customer: text, amount: { type: 'number' }, note: text };
  const type = {
    executor: { kind: 'builtin', name: 'validate' },
    max_failures: 1,
    payload_schema: { type: 'object', required: ['id', 'amount'], properties },
  };
  assert.equal((await server.api('PUT', '/job-types/invoices', type)).status, 201);
  const ada = { name: 'Ada Lovelace', email: 'ada@example.com', role: 'user', password: PASSWORD };
  assert.equal((await server.api('POST', '/users', ada)).status, 201);
  return server;
}

async function signIn(page, to) {
  await page.goto(to);
  await page.getByLabel('Email address').fill('ada@example.com');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL((url) => url.pathname === to);
}

/** A line to the server that can be cut when so many bytes have gone through. */
class Line {
  sent = 0;
  #cutAt = Infinity;
  #sockets = new Set();
  #down = false;
  #onCut = null;

  static async to(t, server) {
    const line = new Line();
    const { hostname, port } = new URL(server.url);
    const listener = net.createServer((client) => line.#join(client, net.connect(Number(port), hostname)));
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    line.url = `http://127.0.0.1:${listener.address().port}`;
    t.after(() => {
      line.#break();
      listener.close();
    });
    return line;
  }

  #join(client, server) {
    for (const [from, to] of [[client, server], [server, client]]) {
      this.#sockets.add(from);
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
    if (this.#down) return client.destroy();
    client.on('data', (data) => {
      this.sent += data.length;
      if (this.sent >= this.#cutAt) this.#break();
    });
    client.pipe(server);
    server.pipe(client);
  }

  #break() {
    this.#cutAt = Infinity;
    this.#down = true;
    this.#onCut?.();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when it is cut, which is after so many more bytes. */
  cutAfter(bytes) {
    this.#cutAt = this.sent + bytes;
    return new Promise((resolve) => {
      this.#onCut = resolve;
    });
  }

  /** Nobody gets through from when it was cut until it is mended. */
  mend() {
    this.#down = false;
  }
}

const awake = (page) => page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
const BROKEN = /ERR_(CONNECTION|EMPTY|SOCKET|NETWORK|INCOMPLETE)\w*/;

/** Every look of a state: two widths, two themes; nothing that axe finds; pictures to be looked at. */
async function looks(page, name) {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const width of [1280, 320]) {
    await page.setViewportSize({ width, height: 800 });
    await holds(page, `uploader-${name}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** Drops a file on the page, wherever. */
async function drop(page, name, content) {
  const files = await page.evaluateHandle(
    ([name, content]) => {
      const data = new DataTransfer();
      data.items.add(new File([content], name, { type: 'text/csv', lastModified: 1_700_000_000_000 }));
      return data;
    },
    [name, content],
  );
  await page.dispatchEvent('h1', 'dragover', { dataTransfer: files });
  await page.locator('.drop.is-over').waitFor();
  await page.dispatchEvent('h1', 'drop', { dataTransfer: files });
}

const dead = async (server, job) => Number((await server.query(`select count(*) from outcome o join item i on i.id = o.item_id join job j on j.job_key = i.job_key where j.id = '${job}' and o.state = 2`))[0][0]);

/** Waits on `/imports/{id}` until all is done. */
async function finished(page) {
  await whenLive(page, 'finished');
  assert.equal(await page.locator('.hero .meter-number').textContent(), '100%');
}

test('a file is dropped over a broken line, checked, worked on, corrected in two ways, taken home and shared', async (t) => {
  const server = await start(t);
  const line = await Line.to(t, server);
  const file = invoices();
  const page = await openPage(server, { signedIn: false, baseURL: line.url });
  page.tolerate(BROKEN);
  await signIn(page, '/imports/new');
  await awake(page);
  await looks(page, 'new');

  // Cut twice in the middle of a piece; each time it says so and goes on by itself when it can.
  let cut = line.cutAfter(2 * MIB);
  await drop(page, 'invoices.csv', file);
  await cut;
  const status = page.locator('[data-upload="broken"] .drop-file');
  await status.getByText(/Connection lost at \d+%/).waitFor();
  await looks(page, 'broken');
  cut = line.cutAfter(4 * MIB);
  line.mend();
  await cut;
  await status.getByText(/Connection lost/).waitFor();
  line.mend();
  await page.locator('[data-upload="stored"]').waitFor();
  assert.ok(line.sent < 1.8 * file.length, `${line.sent} bytes for a file of ${file.length}`);
  const [[sha256, bytes]] = await server.query('select sha256, bytes from upload');
  assert.equal(Number(bytes), file.length);
  const hash = await page.evaluate(async (text) => {
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
  }, file);
  assert.equal(sha256, hash, 'the very bytes');

  // What does not fit is said before anything runs, of the type that is chosen.
  await page.selectOption('select[name=type]', 'invoices');
  const check = page.locator('#check');
  await check.getByText('Column amount: expected a number, found "12 CHF" in line 3, and one more like it').waitFor();
  await looks(page, 'check');
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  const job = page.url().split('/').pop();
  await finished(page);
  assert.equal(await dead(server, job), BAD.length);
  await page.reload();
  await page.getByText(`${BAD.length} rows need your attention`).first().waitFor();
  assert.equal((await page.locator('.problem-count').first().innerText()).trim(), `${BAD.length}`, 'one problem, once');
  await looks(page, 'partial');

  // One row is corrected in the page; first wrongly.
  await page.locator('#fix a').first().click();
  const cell = page.getByLabel('amount, line 3');
  assert.equal(await cell.inputValue(), '12 CHF');
  await looks(page, 'correct');
  page.tolerate(/status of 422/);
  await cell.fill('twelve');
  await page.getByRole('button', { name: 'Retry changed rows' }).click();
  await page.getByText('expected a number, found "twelve"').waitFor();
  assert.equal(await cell.inputValue(), 'twelve');
  await looks(page, 'correct-refused');
  await cell.fill('12.00');
  await page.getByRole('button', { name: 'Retry changed rows' }).click();
  await page.waitForURL(new RegExp(`/imports/${job}$`));
  await finished(page);
  assert.equal(await dead(server, job), BAD.length - 1);

  // The others in the list of failed rows.
  await page.reload();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Failed rows, CSV' }).click();
  const list = await readFile(await (await download).path(), 'utf8');
  assert.equal(list.trim().split('\n').length, BAD.length);
  await page.getByRole('link', { name: 'Upload corrected rows' }).click();
  await awake(page);
  await looks(page, 'again');
  await page.setInputFiles('input[type=file]', { name: 'corrected.csv', mimeType: 'text/csv', buffer: Buffer.from(list.replaceAll('12 CHF', '12')) });
  await page.locator('[data-upload="stored"]').waitFor();
  assert.equal(await page.locator('select[name=type]').inputValue(), 'invoices');
  await page.locator('#rows-summary').getByText('All 3 rows are ready').waitFor();
  await page.locator('#start').click();
  await page.waitForURL((url) => /\/imports\/[0-9a-f-]{36}$/.test(url.pathname) && !url.pathname.endsWith(job));
  const second = page.url().split('/').pop();
  await finished(page);
  assert.equal(await dead(server, second), 0);
  await page.getByText('These rows correct').getByRole('link', { name: 'invoices.csv' }).click();
  await page.waitForURL(new RegExp(`/imports/${job}$`));
  await page.getByText('Corrected rows were uploaded as').getByRole('link', { name: 'corrected.csv' }).waitFor();

  // What is taken home is what the database has.
  const results = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Results, NDJSON' }).click();
  const lines = (await readFile(await (await results).path(), 'utf8')).trim().split('\n').map((text) => JSON.parse(text));
  const rows = await server.query(`select i.row from outcome o join item i on i.id = o.item_id join job j on j.job_key = i.job_key where j.id = '${job}' and o.state = 1 order by i.seq`);
  assert.deepEqual(lines.map(({ row }) => row), rows.map(([row]) => Number(row)));
  assert.equal(lines.find(({ row }) => row === 3).result.amount, 12);

  await page.locator('#create-link').click();
  const link = await page.getByLabel('Link', { exact: true }).inputValue();
  const guest = await openPage(server, { signedIn: false, path: new URL(link).pathname });
  await guest.getByRole('heading', { level: 1, name: /invoices\.csv/ }).waitFor();
  assert.equal(await guest.locator('#fix, #cancel, #delete').count(), 0);
  await page.goto('/imports');
  await looks(page, 'list');
  await page.goto('/account');
  await signOut(page);
  await page.waitForURL(/\/sign-in/);
  await page.goto(`/imports/${job}`);
  assert.match(page.url(), /\/sign-in/);
});

test('a file that is chosen again after the page was closed goes on where it stopped', async (t) => {
  const server = await start(t);
  const line = await Line.to(t, server);
  const folder = await mkdtemp(path.join(tmpdir(), 'treeline-file-'));
  t.after(() => rm(folder, { recursive: true }));
  const name = path.join(folder, 'invoices.csv');
  const file = invoices();
  await writeFile(name, file);
  await utimes(name, 1_700_000_000, 1_700_000_000);
  const page = await openPage(server, { signedIn: false, baseURL: line.url });
  page.tolerate(BROKEN);
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    return dialog.accept();
  });
  await signIn(page, '/imports/new');
  await awake(page);
  const cut = line.cutAfter(6 * MIB);
  await page.setInputFiles('input[type=file]', name);
  await cut;
  await page.locator('[data-upload="broken"]').waitFor();
  line.mend();
  // Left in the middle, which the browser may ask about.
  await page.goto('/imports');
  assert.ok(asked.every((type) => type === 'beforeunload'), `${asked}`);

  const offsets = [];
  page.on('request', (request) => {
    if (request.method() === 'PATCH') offsets.push(Number(request.headers()['upload-offset']));
  });
  await page.goto('/imports/new');
  await awake(page);
  await page.getByText(/Not uploaded whole: \d+% is here/).waitFor();
  await looks(page, 'unfinished');
  await page.setInputFiles('input[type=file]', name);
  await page.locator('[data-upload="stored"]').waitFor();
  assert.ok(offsets.length > 0 && Math.min(...offsets) >= 4 * MIB, `it went on at ${offsets}`);
  const [[bytes, count]] = await server.query('select max(bytes), count(*) from upload');
  assert.deepEqual([Number(bytes), Number(count)], [file.length, 1]);
  assert.equal(await page.evaluate(() => localStorage.length), 0, 'nothing is remembered of what is done');
});

test('without JavaScript: a column that does not fit, rows corrected in the page and in a list', async (t) => {
  const server = await start(t);
  const page = await openPage(server, { signedIn: false, javaScriptEnabled: false });
  page.tolerate(/status of 422/);
  await signIn(page, '/imports/new');
  const file = 'id,customer,amount\n1,Ada,10\n2,Ben,12 CHF\n3,Cy,7 CHF\n';
  await page.setInputFiles('input[type=file]', { name: 'invoices.csv', mimeType: 'text/csv', buffer: Buffer.from(file) });
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.selectOption('select[name=type]', 'invoices');
  await page.locator('#start').click();
  await page.getByText('found "12 CHF" in line 3, and one more like it').waitFor();
  await screenshot(page, 'uploader-check-without-javascript');
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  const done = async () => {
    while ((await page.locator('.hero .meter-number').textContent()) !== '100%') await page.reload();
  };
  await done();
  await page.locator('#fix a').first().click();
  await page.getByLabel('amount, line 3').fill('12');
  await page.getByRole('button', { name: 'Retry changed rows' }).click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await done();
  const href = await page.getByRole('link', { name: 'Failed rows, CSV' }).getAttribute('href');
  const list = await (await page.request.get(href)).text();
  await page.getByRole('link', { name: 'Upload corrected rows' }).click();
  await page.setInputFiles('input[type=file]', { name: 'again.csv', mimeType: 'text/csv', buffer: Buffer.from(list.replace('7 CHF', '7')) });
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await done();
  await page.getByText('These rows correct').getByRole('link', { name: 'invoices.csv' }).waitFor();
});
