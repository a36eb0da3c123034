// Saved views in a browser: a filter is saved, opened by default, renamed and deleted, with and without scripts, on a
// desktop and on a phone, in both color schemes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, holds, openPage, screenshot, startServer } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const DESKTOP = { viewport: { width: 1440, height: 900 } };

for (const [device, options] of [['desktop', DESKTOP], ['phone', PHONE]]) {
  test(`a filter is saved, opened by default, renamed and deleted: ${device}`, async (t) => {
    const server = await startServer(t);
    await server.api('PUT', '/job-types/invoices', { executor: { kind: 'pull' } });
    for (const name of ['November', 'December']) await server.api('POST', '/jobs', { type: 'invoices', name, items: [{ payload: 1 }] });
    await server.api('POST', '/views', { list: 'jobs', name: 'Failed imports', q: 'type:import outcome:failed', shared: true });
    const page = await openPage(server, { path: '/jobs', ...options });
    await page.locator('#filter').fill('type:invoices December');
    await page.getByLabel('Order').selectOption('created_at');
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.waitForURL(/sort=created_at/);
    const menu = page.locator('#views-menu');
    await menu.locator('summary').click();
    await menu.getByLabel('Save this view as').fill('Invoices of December');
    await menu.getByLabel('Open this list with it').check();
    await holds(page, `saved-views-menu-${device}`);
    await menu.getByRole('button', { name: 'Save view' }).click();
    await page.getByText('Saved. The view is in the menu Views.').waitFor();
    assert.equal(await page.locator('.jobs tbody tr').count(), 1);

    // The list opens with it, and everything is one step away.
    await page.goto('/jobs');
    assert.match(page.url(), /sort=created_at/);
    assert.equal(await page.locator('#filter').inputValue(), 'type:invoices December');
    await menu.locator('summary', { hasText: 'Invoices of December' }).click();
    await menu.getByRole('link', { name: 'Everything' }).click();
    await page.waitForURL('**/jobs?view=all');
    assert.equal(await page.locator('.jobs tbody tr').count(), 2);

    await menu.locator('summary').click();
    await menu.getByRole('link', { name: 'Manage saved views' }).click();
    await page.getByRole('heading', { name: 'Shared by others' }).waitFor();
    const row = page.locator('.view-row', { hasText: 'Invoices of December' });
    await row.getByText('Edit…').click();
    await accessible(page);
    await screenshot(page, `saved-views-${device}`);
    await row.getByLabel('Name', { exact: true }).fill('December');
    await row.getByRole('button', { name: 'Save changes' }).click();
    const renamed = page.locator('.view-row', { hasText: 'type:invoices December' });
    await renamed.getByRole('link', { name: 'December', exact: true }).waitFor();
    await renamed.getByText('Delete…').click();
    await renamed.getByRole('button', { name: 'Delete view' }).click();
    await page.getByText('Deleted.').waitFor();
    assert.equal(await page.locator('.view-row').count(), 1);
  });
}

test('a view is saved without scripts, and its name is text', async (t) => {
  const server = await startServer(t);
  const name = '"><img src=x onerror=alert(1)>';
  const page = await openPage(server, { javaScriptEnabled: false, path: '/dead?q=type:invoices' });
  page.tolerate(/status of 422/);
  for (const expected of ['Saved. The view is in the menu Views.', 'Expected a name that no other of your views of this list has.']) {
    await page.locator('#views-menu summary').click();
    await page.getByLabel('Save this view as').fill(name);
    await page.getByRole('button', { name: 'Save view' }).click();
    await page.getByText(expected).waitFor();
  }
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), name);
  await page.getByLabel('Name', { exact: true }).fill('Invoices');
  await page.getByRole('button', { name: 'Save view' }).click();
  await page.locator('#views-menu summary').click();
  await page.getByRole('link', { name }).waitFor();
  assert.equal(await page.locator('main img').count(), 0);
});
