// Matching columns in a browser: a clerk matches a German file once, sees each choice in the rows at once, and finds the
// choices again the next month, when the columns have another order and other names; on a desktop and on a phone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

const TYPE = {
  executor: { kind: 'builtin', name: 'validate' },
  payload_schema: {
    type: 'object',
    properties: { customer: { type: 'string' }, amount: { type: 'number' }, due: { type: 'string', format: 'date' } },
    required: ['customer', 'amount'],
    additionalProperties: false,
  },
  import: { aliases: { due: ['Zahlbar bis'] } },
};

async function upload(page, name, text) {
  await page.goto('/imports/new');
  await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  await page.setInputFiles('input[type=file]', { name, mimeType: 'text/csv', buffer: Buffer.from(text, 'latin1') });
  await page.locator('[data-upload="stored"]').waitFor();
}

/** Starts the import and waits for its end; the items as the API gives them. */
async function start(server, page) {
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
  await whenLive(page, 'finished');
  const id = page.url().split('/').at(-1);
  const { data } = await (await server.api('GET', `/items?job=${id}`)).json();
  const payloads = await Promise.all(data.map(async (item) => (await (await server.api('GET', `/items/${item.id}`)).json()).payload));
  return payloads.sort((a, b) => a.due.localeCompare(b.due));
}

for (const [device, options] of [['desktop', {}], ['phone', PHONE]]) {
  test(`columns that are matched once are matched the next month: ${device}`, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
    const page = await openPage(server, { path: '/imports/new', ...options });
    await upload(page, 'january.csv', 'Kunde;Betrag;Zahlbar bis;Bemerkung\nMüller;1.234,56;31.01.2026;x\nZoë;7,5;28.02.2026;\n');
    await page.selectOption('#type', 'invoices');
    await page.getByText('Choose a column for amount, customer.').waitFor();
    const property = (name) => page.getByRole('combobox', { name: `Property for ${name}`, exact: true });
    const values = (name) => page.getByRole('combobox', { name: `Values of ${name}`, exact: true });
    assert.equal(await property('Zahlbar bis').inputValue(), 'due');
    assert.equal(await values('Zahlbar bis').inputValue(), 'date DD.MM.YYYY');

    // Each choice shows in the rows, without a reload and without losing the others.
    await page.evaluate(() => (window.sameDocument = true));
    await property('Kunde').selectOption('customer');
    await page.getByText('Choose a column for amount.').waitFor();
    await property('Betrag').selectOption('amount');
    await page.locator('#columns-missing').waitFor({ state: 'detached' });
    await values('Betrag').selectOption('integer 1.234,56');
    await page.locator('.sheet td.cell-bad').first().waitFor();
    assert.equal(await property('Kunde').inputValue(), 'customer');
    await accessible(page);
    await values('Betrag').selectOption('number 1.234,56');
    await page.locator('.sheet td.cell-bad').first().waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => window.sameDocument), true);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await screenshot(page, `columns-${device}`);
    // What was chosen is in the address: a reload keeps it.
    await page.reload();
    assert.equal(await property('Kunde').inputValue(), 'customer');
    assert.equal(await values('Betrag').inputValue(), 'number 1.234,56');
    // Another separator gives other columns, and the one before gives the suggested ones.
    await page.selectOption('#delimiter', '|');
    await property('Kunde').waitFor({ state: 'detached' });
    await page.selectOption('#delimiter', '');
    await property('Kunde').selectOption('customer');
    await property('Betrag').selectOption('amount');
    await values('Betrag').selectOption('number 1.234,56');
    await page.locator('#columns-missing').waitFor({ state: 'detached' });
    assert.deepEqual(await start(server, page), [
      { customer: 'Müller', amount: 1234.56, due: '2026-01-31' },
      { customer: 'Zoë', amount: 7.5, due: '2026-02-28' },
    ]);

    await upload(page, 'february.csv', 'Zahlbar bis:;Bemerkung;Beträge;Kunde\n31.03.2026;;12,00;Zoë\n');
    await page.selectOption('#type', 'invoices');
    await property('Kunde').waitFor();
    await page.getByText('as in your last import').first().waitFor();
    assert.equal(await property('Kunde').inputValue(), 'customer');
    assert.equal(await property('Beträge').inputValue(), 'amount');
    assert.equal(await property('Zahlbar bis:').inputValue(), 'due');
    assert.deepEqual(await start(server, page), [{ customer: 'Zoë', amount: 12, due: '2026-03-31' }]);
  });
}
