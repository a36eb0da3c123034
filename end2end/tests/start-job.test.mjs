// A job started by form in a browser: fields from the schema, errors at their fields, one job in spite of a double click;
// with and without scripts, on a desktop and on a phone, in both color schemes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, holds, openPage, screenshot, startServer } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const DESKTOP = { viewport: { width: 1440, height: 900 } };

const TYPE = {
  executor: { kind: 'pull' },
  payload_schema: {
    type: 'object',
    required: ['customer', 'amount', 'express'],
    additionalProperties: false,
    properties: {
      customer: { type: 'string', title: 'Customer', description: 'As in the contract.', minLength: 3 },
      amount: { type: 'number', title: 'Amount', minimum: 1 },
      currency: { enum: ['EUR', 'USD', 'CHF'], title: 'Currency', default: 'EUR' },
      due: { type: 'string', format: 'date', title: 'Due' },
      express: { type: 'boolean', title: 'Express delivery' },
      tags: { type: 'array', items: { type: 'string' }, title: 'Tags' },
      note: { type: 'string', title: 'Note', maxLength: 2000 },
      address: { type: 'object', title: 'Address' },
    },
  },
};

async function jobs(server) {
  return (await (await server.api('GET', '/jobs')).json()).data;
}

for (const [device, options] of [['desktop', DESKTOP], ['phone', PHONE]]) {
  test(`a job is started by form: ${device}`, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
    const page = await openPage(server, { path: '/jobs', ...options });
    page.tolerate(/status of 422/);
    await page.locator('.page-head').getByRole('link', { name: 'Start job' }).click();
    await page.locator('#type').selectOption('invoices');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('heading', { name: 'Item 1' }).waitFor();
    assert.equal(await page.getByLabel('Currency').inputValue(), '"EUR"');
    await page.getByLabel('Customer').fill('Al');
    await page.getByLabel('Amount').fill('1,5');
    await page.getByLabel('Due').fill('2026-12-31');
    await page.getByLabel('Express delivery').check();
    await page.getByLabel('Tags').fill('first\nsecond');
    await page.getByLabel('Name (optional)').fill('December');
    await holds(page, `start-job-${device}`);
    await page.locator('#start .card-foot').getByRole('button', { name: 'Start job' }).click();
    await page.getByRole('alert').waitFor();
    assert.equal(await page.getByLabel('Amount').getAttribute('aria-invalid'), 'true');
    await page.locator('#item-0-1-fault', { hasText: 'expected a number' }).waitFor();
    assert.equal(await page.getByLabel('Amount').inputValue(), '1,5');
    assert.equal(await page.getByLabel('Tags').inputValue(), 'first\nsecond');
    assert.equal(await page.getByLabel('Express delivery').isChecked(), true);
    await accessible(page);
    await screenshot(page, `start-job-refused-${device}`);
    assert.equal((await jobs(server)).length, 0);

    await page.getByLabel('Customer').fill('Alma');
    await page.getByLabel('Amount').fill('1.50');
    await page.getByRole('button', { name: 'Add item' }).click();
    await page.getByRole('heading', { name: 'Item 2' }).waitFor();
    const second = page.getByRole('group', { name: 'Item 2' });
    await second.getByLabel('Customer').fill('Ben and Sons');
    await second.getByLabel('Amount').fill('20');
    await page.getByRole('button', { name: 'Start job with 2 items' }).dblclick();
    await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/);
    await page.getByText('Started. This page follows the job.').waitFor();
    const [job, ...others] = await jobs(server);
    assert.equal(others.length, 0, 'two clicks, one job');
    assert.equal(job.name, 'December');
    const items = (await (await server.api('GET', `/items?job=${job.id}&sort=created_at`)).json()).data;
    assert.deepEqual(items.map((item) => item.payload), [
      { customer: 'Alma', amount: 1.5, currency: 'EUR', due: '2026-12-31', express: true, tags: ['first', 'second'] },
      { customer: 'Ben and Sons', amount: 20, currency: 'EUR', express: false },
    ]);
  });
}

test('a job is started without scripts, as JSON and with fields', async (t) => {
  const server = await startServer(t);
  assert.equal((await server.api('PUT', '/job-types/invoices', TYPE)).ok, true);
  const page = await openPage(server, { javaScriptEnabled: false, path: '/jobs/new?type=invoices' });
  page.tolerate(/status of 422/);
  await page.getByLabel('Customer').fill('Alma');
  await page.getByLabel('Amount').fill('1.50');
  await page.getByRole('button', { name: 'Edit as JSON' }).click();
  const json = page.getByLabel('Payload, as JSON');
  assert.match(await json.inputValue(), /"amount": 1\.50/);
  await json.fill('{"customer": "Alma", "amount": 1.50, "express": true, "address": {"city": "Bonn"}');
  await page.locator('#start .card-foot').getByRole('button', { name: 'Start job' }).click();
  await page.locator('#item-0-fault', { hasText: 'expected JSON' }).waitFor();
  await json.fill(`${await json.inputValue()}}`);
  await page.getByRole('button', { name: 'Use fields' }).click();
  assert.match(await page.getByLabel('Address').inputValue(), /"city": "Bonn"/);
  // Enter starts the job, not the first button that is seen.
  await page.getByLabel('Customer').press('Enter');
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/);
  const [job] = await jobs(server);
  const [item] = (await (await server.api('GET', `/items?job=${job.id}`)).json()).data;
  assert.deepEqual(item.payload, { customer: 'Alma', amount: 1.5, express: true, address: { city: 'Bonn' } });
});
