// The API reference in a browser: found in the menu, filtered, read, and tried; with and without scripts, on a desktop and on
// a phone, in both color schemes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holds, openPage, startServer } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const DESKTOP = { viewport: { width: 1440, height: 900 } };

for (const [device, options] of [['desktop', DESKTOP], ['phone', PHONE]]) {
  test(`the API is read and tried in the browser: ${device}`, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.api('PUT', '/job-types/invoices', {})).ok, true);
    const page = await openPage(server, { path: '/jobs', ...options });
    page.tolerate(/status of 422/);
    await page.locator('#account-menu summary').click();
    await page.locator('#account-menu').getByRole('link', { name: 'API reference' }).click();
    await page.getByRole('heading', { name: 'API reference', level: 1 }).waitFor();
    await holds(page, `api-reference-${device}`);

    await page.getByLabel('Filter operations').fill('post jobs create');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText(/^\d+ of \d+ operations$/).waitFor();
    await page.getByRole('link', { name: 'Create a tree of jobs' }).first().click();
    await page.getByRole('heading', { name: 'Create a tree of jobs', level: 1 }).waitFor();
    await holds(page, `api-operation-${device}`);

    // Text that is not JSON is refused at its field, and nothing is sent.
    await page.getByLabel('Body, as JSON').fill('{"type": "invoices",');
    await page.getByRole('button', { name: 'Send request' }).click();
    await page.getByRole('alert').filter({ hasText: 'Nothing was sent' }).waitFor();
    await page.locator('#try-body-fault', { hasText: 'expected JSON' }).waitFor();
    await holds(page, `api-refused-${device}`);
    await page.getByLabel('Body, as JSON').fill('{"type": "invoices", "items": [{"payload": {"amount": 1.50}}]}');
    await page.getByRole('button', { name: 'Send request' }).click();
    const response = page.locator('#outcome');
    await response.getByText('201 Created').waitFor();
    await response.locator('.doc').getByText('"invoices"').first().waitFor();
    await holds(page, `api-response-${device}`);
    const [job, ...others] = (await (await server.api('GET', '/jobs')).json()).data;
    assert.equal(others.length, 0);

    // A request that ends something is shown first.
    await page.goto(`${server.url}/api/docs/cancel_job?path.id=${job.id}`);
    await page.getByLabel('Body, as JSON').fill('{"reason": "Twice"}');
    await page.getByRole('button', { name: 'Send request…' }).click();
    await page.getByRole('alert').filter({ hasText: `POST /api/v1/jobs/${job.id}/cancel` }).waitFor();
    await holds(page, `api-confirm-${device}`);
    assert.equal((await (await server.api('GET', `/jobs/${job.id}`)).json()).outcome, null);
    await page.getByRole('button', { name: 'Send it now' }).click();
    await page.locator('#outcome').getByText('200 OK').waitFor();
    assert.equal((await (await server.api('GET', `/jobs/${job.id}`)).json()).outcome, 'cancelled');
  });
}

test('the API is tried without scripts', async (t) => {
  const server = await startServer(t);
  const page = await openPage(server, { javaScriptEnabled: false, path: '/api/docs?q=job-types' });
  page.tolerate(/status of 422/);
  await page.getByRole('link', { name: 'Create or replace a job type' }).click();
  await page.getByLabel('name', { exact: true }).fill('letters');
  await page.getByLabel('Body, as JSON').fill('{"max_failures": 7}');
  // It decides where data is sent, so it is asked for first.
  await page.getByRole('button', { name: 'Send request…' }).click();
  await page.getByRole('button', { name: 'Send it now' }).click();
  await page.locator('#outcome').getByText('201 Created').waitFor();
  assert.equal((await (await server.api('GET', '/job-types/letters')).json()).max_failures, 7);
});
