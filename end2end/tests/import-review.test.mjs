// The review before an import: a clerk finds the bad rows of 10,000, fixes 20 of them in the grid by keyboard, leaves out the row
// with the total, imports the others, and fixes the last 5 afterwards; on a desktop and on a phone. A header below a title, and
// sheets of a workbook.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const ROWS = 10_000;
const TOTAL = ROWS + 2;

const TYPE = {
  executor: { kind: 'builtin', name: 'validate' },
  max_failures: 1,
  payload_schema: {
    type: 'object',
    properties: { customer: { type: 'string', minLength: 1 }, city: { type: 'string' }, amount: { type: 'number' } },
    required: ['customer', 'amount'],
    additionalProperties: false,
  },
  import: { aliases: { customer: ['Kunde'], city: ['Ort'], amount: ['Betrag'] } },
};

/** Bad lines that are fixed after the import. */
const LATE = [301, 302, 303, 304, 305];
/** Is the amount of this line, counted from the header, none? */
const isBad = (line) => line % 500 === 0 || LATE.includes(line);

function invoices() {
  const row = (line) => `Muster ${line} AG;Zürich;${isBad(line) ? `${line} CHF` : `${line},50`}\n`;
  return `Kunde;Ort;Betrag\n${Array.from({ length: ROWS }, (_, n) => row(n + 2)).join('')};;50.015.000,00\n`;
}

async function upload(page, name, text) {
  await page.goto('/imports/new');
  await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/csv', buffer: Buffer.from(text) });
  await page.locator('[data-upload="stored"]').waitFor();
}

for (const [device, options] of [['desktop', {}], ['phone', PHONE]]) {
  test(`20 bad rows of 10,000 are fixed before the start, and 5 after it: ${device}`, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
    const page = await openPage(server, { path: '/imports/new', ...options });
    await upload(page, 'invoices.csv', invoices());
    // The first rows are there at once; the rest is checked behind them.
    await page.locator('.sheet').waitFor();
    await page.selectOption('#type', 'invoices');
    const summary = page.locator('#rows-summary');
    await summary.getByText('9,975 rows are ready, 26 need attention').waitFor();
    await page.evaluate(() => (window.sameDocument = true));
    const rows = page.locator('.sheet tbody tr:visible');
    assert.equal(await rows.count(), 26, 'only problems');
    await page.locator('#row-filter').getByText('All').click();
    assert.equal(await rows.count(), 231, 'the first 200, the last 5, and those with a problem');
    await page.locator('#row-filter').getByText('Only problems').click();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing scrolls sideways but the sheet');
    if (device === 'phone') {
      const wrap = page.locator('.sheet-wrap');
      assert.ok(await wrap.evaluate((it) => it.scrollWidth <= it.clientWidth), 'rows are cards');
    }
    await accessible(page);
    await page.evaluate(() => scrollTo(0, 0));
    await screenshot(page, `import-review-${device}`);
    await rows.first().scrollIntoViewIfNeeded();
    await screenshot(page, `import-review-rows-${device}`);

    // Enter goes to the same column of the next row, Escape brings back what was there.
    const cell = (line) => page.getByLabel(`Betrag, line ${line}`, { exact: true });
    await cell(500).focus();
    assert.equal(await cell(500).getAttribute('aria-invalid'), 'true');
    await page.getByText('Expected a number such as 1.234,56, found "500 CHF".').waitFor();
    await page.keyboard.type('nonsense');
    await page.keyboard.press('Escape');
    assert.equal(await cell(500).inputValue(), '500 CHF');
    await cell(500).selectText();
    for (let line = 500; line <= 10_000; line += 500) {
      assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), `Betrag, line ${line}`);
      await page.keyboard.type('1.234,50');
      await page.keyboard.press('Enter');
    }
    await page.keyboard.press('ArrowUp');
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Betrag, line 10000');
    await page.getByLabel(`Leave out line ${TOTAL}`).check();
    await page.getByRole('button', { name: 'Check again' }).last().click();
    await summary.getByText(/9,995 rows are ready, 5 need attention, 1 is left out/).waitFor();
    await page.getByText('Changed from “500 CHF”').waitFor();
    await accessible(page);
    await page.evaluate(() => scrollTo(0, 0));
    await screenshot(page, `import-review-fixed-${device}`);

    // Another notation makes the amounts wrong, and the first one right again: what was typed stays.
    const values = page.getByRole('combobox', { name: 'Values of Betrag', exact: true });
    await values.selectOption('number');
    await summary.getByText(/ (?!5 need)[\d,]+ need attention/).waitFor();
    await values.selectOption('number 1.234,56');
    await summary.getByText(/9,995 rows are ready, 5 need attention, 1 is left out/).waitFor();
    assert.equal(await cell(500).inputValue(), '1.234,50');
    assert.equal(await page.evaluate(() => window.sameDocument), true);

    await page.getByRole('button', { name: 'Import 9,995 rows' }).click();
    await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
    await whenLive(page, 'finished');
    await page.getByText('5 rows need your attention').first().waitFor();
    const id = page.url().split('/').at(-1);
    const counts = async () => {
      const { counts } = await (await server.api('GET', `/jobs/${id}`)).json();
      return [counts.succeeded, counts.dead];
    };
    assert.deepEqual(await counts(), [ROWS - LATE.length, LATE.length]);

    await page.locator('#fix a').first().click();
    for (const line of LATE) {
      await page.getByLabel(`amount, line ${line}`).fill('12,50'); // in the notation of the file
    }
    await page.getByRole('button', { name: 'Retry changed rows' }).click();
    await page.waitForURL(new RegExp(`/imports/${id}$`));
    await whenLive(page, 'finished');
    await page.getByText('All 10,000 rows are imported.').first().waitFor();
    assert.deepEqual(await counts(), [ROWS, 0]);
    const [[items, done]] = await server.query('select (select count(*) from item), (select count(*) from outcome where state = 1)');
    assert.deepEqual([Number(items), Number(done)], [ROWS, ROWS], 'the total is no item, and each row was processed once');
  });
}

test('column names below a title are found, and without JavaScript a button reads them there', async (t) => {
  const server = await startServer(t);
  assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
  const page = await openPage(server, { path: '/imports/new' });
  await upload(page, 'march.csv', 'Invoices of March;;\n;;\ncustomer;city;amount\nAda;Bern;1\nBen;Genf;zwei\nTotal;;\n');
  await page.selectOption('#type', 'invoices');
  await page.getByText('The column names seem to be in row 3.').waitFor();
  await screenshot(page, 'import-review-title');
  await page.getByRole('button', { name: 'Use row 3' }).click();
  await page.locator('#rows-summary').getByText('1 row is ready, 2 need attention').waitFor();
  assert.match(page.url(), /header_row=3/);
  assert.equal(await page.locator('#header_row').inputValue(), '3');

  const plain = await openPage(server, { javaScriptEnabled: false, path: page.url().replace(/.*(?=\/imports)/, '').replace('header_row=3', 'header_row=') });
  await plain.getByRole('button', { name: 'Use row 3' }).click();
  await plain.getByLabel('amount, line 5').fill('2');
  await plain.getByLabel('Leave out line 6').check();
  await plain.getByRole('button', { name: 'Check again' }).last().click();
  await plain.locator('#rows-summary').getByText('2 rows are ready, 1 is left out').waitFor();
  await plain.locator('#row-filter').getByText('Changed').click();
  assert.equal(await plain.locator('.sheet tbody tr:visible').count(), 2);
  await plain.mouse.wheel(0, -10_000);
  await screenshot(plain, 'import-review-without-javascript');
  await plain.locator('#start').click();
  await plain.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  while ((await plain.locator('.hero .meter-number').textContent()) !== '100%') await plain.reload();
  await plain.getByText('All 2 rows are imported.').first().waitFor();
});

test('cells are fixed as proposed without leaving the page, and problems are downloaded', async (t) => {
  const server = await startServer(t);
  assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
  const page = await openPage(server, { path: '/imports/new', ...PHONE });
  await page.locator('#templates summary').click();
  await screenshot(page, 'import-templates-phone');
  await upload(page, 'march.csv', 'customer;city;amount\nAda;Bern;1 CHF\nBen;Genf;2 CHF\nCy;Chur;three\nDora;Thun;4\n');
  await page.selectOption('#type', 'invoices');
  const summary = page.locator('#rows-summary');
  await summary.getByText('1 row is ready, 3 need attention').waitFor();
  await page.evaluate(() => (window.sameDocument = true));
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('#problem-list').click()]);
  assert.equal(file.suggestedFilename(), 'march-problems.csv');
  await page.locator('#quick-fixes').scrollIntoViewIfNeeded();
  await screenshot(page, 'import-fixes-phone');
  await page.getByRole('button', { name: 'Use “1” in line 2' }).click();
  await summary.getByText('2 rows are ready, 2 need attention').waitFor();
  assert.equal(await page.getByLabel('amount, line 2', { exact: true }).inputValue(), '1');
  await page.getByRole('button', { name: 'Use “2” in line 3' }).click();
  await summary.getByText('3 rows are ready, 1 needs attention').waitFor();
  await accessible(page);
  assert.equal(await page.evaluate(() => window.sameDocument), true);
});
