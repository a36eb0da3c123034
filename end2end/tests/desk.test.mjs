// The support desk: the failed rows of one error are found, previewed, retried with a reason, and the import completes;
// with and without scripts; by keyboard only; in every size and color scheme.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, allHold, openPage, screenshot, startServer } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const ROWS = 40;

/** An import of forty rows: twelve without an account, three refused, the rest done. */
async function failing(server) {
  await server.api('PUT', '/job-types/accounts', { executor: { kind: 'pull' } });
  const csv = ['account,amount', ...Array.from({ length: ROWS }, (_, row) => `A-${row},${row}.10`)].join('\n');
  const stored = await server.api('POST', '/uploads?filename=accounts.csv', csv, { 'content-type': 'application/octet-stream' });
  assert.equal(stored.status, 201, await stored.clone().text());
  const made = await server.api('POST', '/jobs', { type: 'accounts', name: 'accounts.csv', upload: { id: (await stored.json()).id } });
  assert.equal(made.status, 201, await made.clone().text());
  const { id } = await made.json();
  const worker = new Worker(server, 'accounts');
  for (let seen = 0; seen < ROWS; ) {
    const held = await worker.claim(100);
    seen += held.length;
    const endings = held.map((assignment) => ({ assignment_id: assignment.id, ...ending(assignment.item.row - 2) }));
    await worker.call('/assignments/finish', { endings });
  }
  return { id, worker };
}

function ending(row) {
  const failed = (message, kind) => ({ error: { message, kind }, retryable: false });
  if (row < 12) return failed(`no such account A-${row}`, 'no_account');
  if (row < 15) return failed('the bank said no', 'refused');
  return { result: { row } };
}

/** Reloads a page without scripts until it shows the text. */
async function shown(page, text) {
  for (let tries = 0; (await page.getByText(text).count()) === 0; tries += 1) {
    assert.ok(tries < 400, `the page never says: ${text}`);
    await page.reload();
  }
}

/** Finishes everything that waits for the worker. */
async function finishAll(worker, count) {
  for (let done = 0; done < count; ) {
    const held = await worker.claim(100);
    await worker.finish(held);
    done += held.length;
  }
}

test('the failed rows of one error are found, given back with a reason, and the import comes to its end', async (t) => {
  const server = await startServer(t);
  const { id, worker } = await failing(server);
  const page = await openPage(server, { path: '/' });
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Failures' }).click();
  const group = page.locator('.error-groups .issue', { hasText: 'no such account' });
  await group.locator('[data-count]', { hasText: '12' }).waitFor();
  await screenshot(page, 'failures');
  await group.locator('a.issue-message').click();
  await page.locator('.items tbody tr').nth(11).waitFor();
  assert.equal(await page.locator('.items tbody tr').count(), 12);

  // Payloads are searched, too.
  await page.locator('#filter').fill('type:accounts "A-7"');
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.waitForURL(/A-7/);
  assert.equal(await page.locator('.items tbody tr').count(), 1);
  await page.goBack({ waitUntil: 'commit' });

  await page.getByRole('button', { name: 'Retry 12 items…' }).click();
  await page.waitForURL(/\/bulk\/[0-9a-f-]{36}$/);
  await page.getByText('12 items match. Nothing has changed yet.').waitFor();
  await screenshot(page, 'operation-preview');
  const reason = page.getByRole('textbox', { name: /^Reason/ });
  await reason.fill('The accounts were opened');
  const preview = page.url();
  await page.getByRole('button', { name: 'Retry 12 items' }).click();
  await page.waitForURL((url) => /\/bulk\/[0-9a-f-]{36}$/.test(url.pathname) && url.href !== preview);
  await page.getByText('Done: all 12 items were retried.').waitFor();
  await screenshot(page, 'operation-through');
  await finishAll(worker, 12);

  // Another one, with a corrected payload; the exact number stays as written.
  await page.goto(`/dead?q=root:${id}`);
  await page.locator('.items tbody tr').first().getByRole('link', { name: 'Retry…' }).click();
  const payload = page.locator('#retry-payload');
  const stored = await payload.inputValue();
  assert.match(stored, /"amount"/);
  await payload.fill('{"account": "B-1", "amount": 9007199254740993.10}');
  await page.locator('#retry-reason').fill('Typing error');
  await page.getByRole('button', { name: 'Retry item', exact: true }).click();
  await page.getByRole('status').first().waitFor();
  await page.getByText('9007199254740993.10').first().waitFor();
  await page.getByText('Why is this waiting?').waitFor();
  await screenshot(page, 'item-waiting');
  await finishAll(worker, 1);

  // The rest without scripts: only forms and links.
  const plain = await openPage(server, { javaScriptEnabled: false, path: `/jobs/${id}` });
  await plain.getByRole('button', { name: 'Retry 2 failed' }).click();
  await plain.getByText('2 items match').waitFor();
  await plain.locator('input[name=reason]').fill('The bank said yes');
  await plain.getByRole('button', { name: 'Retry 2 items' }).click();
  await plain.waitForURL(/\/bulk\//);
  await shown(plain, 'Done: all 2 items');
  await finishAll(worker, 2);
  await page.goto(`/imports/${id}`);
  await page.getByText(`All ${ROWS} rows are imported.`).first().waitFor();
  const audit = await (await server.api('GET', '/audit?action=bulk.retry')).json();
  assert.deepEqual(audit.data.map((entry) => entry.reason), ['The bank said yes', 'The accounts were opened']);
});

test('twelve thousand failed items are given back without scripts, once, though the button is pressed twice', async (t) => {
  const server = await startServer(t);
  const all = 12_431;
  await server.api('PUT', '/job-types/many', { executor: { kind: 'pull' } });
  const { id } = await (await server.api('POST', '/jobs', { type: 'many', name: 'refunds.csv' })).json();
  const lines = Array.from({ length: all }, (_, n) => `{"payload":{"n":${n}}}`).join('\n');
  const added = await server.api('POST', `/jobs/${id}/items?seal=true`, lines, { 'content-type': 'application/x-ndjson' });
  assert.equal(added.status, 200, await added.text());
  const worker = new Worker(server, 'many');
  const error = { message: 'the bank is closed', kind: 'bank' };
  for (let failed = 0; failed < all; ) {
    const held = await worker.claim(1000);
    const endings = held.map((assignment) => ({ assignment_id: assignment.id, error, retryable: false }));
    await worker.call('/assignments/finish', { endings });
    failed += held.length;
  }

  const page = await openPage(server, { javaScriptEnabled: false, path: '/dead' });
  await page.getByRole('button', { name: 'Retry all 12,431…' }).first().click();
  await shown(page, '12,431 items match');
  await page.locator('input[name=reason]').fill('The bank is open again');
  const preview = page.url();
  await page.getByRole('button', { name: 'Retry 12,431 items' }).dblclick();
  // The second press may still be in progress when the first has navigated.
  await page.waitForURL((url) => url.pathname.startsWith('/bulk/') && url.href !== preview);
  await page.waitForLoadState('networkidle');
  await shown(page, 'Done: all 12,431 items were retried');
  await screenshot(page, 'operation-many');
  const operations = (await (await server.api('GET', '/bulk-operations')).json()).data;
  const begun = operations.filter((operation) => operation.state !== 'ready');
  assert.deepEqual(begun.map(({ total, processed, errored }) => ({ total, processed, errored })), [{ total: all, processed: all, errored: 0 }]);
  const { counts } = await (await server.api('GET', `/jobs/${id}`)).json();
  assert.equal(counts.available, all);
});

test('keys lead through lists and pages, and stay out of fields', async (t) => {
  const server = await startServer(t);
  await failing(server);
  const page = await openPage(server, { path: '/dead' });
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  const first = page.locator('.items tbody th a').first();
  assert.ok(await first.evaluate((link) => link === document.activeElement));
  await page.keyboard.press('/');
  assert.ok(await page.locator('#filter').evaluate((field) => field === document.activeElement));
  await page.keyboard.type('gj?/');
  assert.equal(await page.locator('#filter').inputValue(), 'gj?/');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  const dialog = page.locator('#keys');
  assert.ok(await dialog.evaluate((it) => it.open));
  await screenshot(page, 'keys');
  await page.keyboard.press('Escape');
  assert.ok(!(await dialog.evaluate((it) => it.open)));
  await page.keyboard.press('g');
  await page.keyboard.press('t');
  await page.waitForURL(/\/types$/);
  // Switched off, the keys do nothing.
  await page.keyboard.press('?');
  await page.getByLabel('Switch single-key shortcuts off in this browser').check();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  assert.ok(!(await dialog.evaluate((it) => it.open)));
  // Without scripts the shortcuts are a page.
  const plain = await openPage(server, { javaScriptEnabled: false, path: '/dead' });
  await plain.locator('#keys-link').click();
  await plain.waitForURL(/\/shortcuts$/);
});

test('the pages of the desk hold on every size and scheme, without a fault that axe can find', async (t) => {
  const server = await startServer(t);
  const { id } = await failing(server);
  const filter = { state: 'dead', root: id };
  const response = await server.api('POST', '/bulk-operations', { action: 'retry', target: 'items', filter, dry_run: true });
  const preview = (await response.json()).id;
  const { data } = await (await server.api('GET', `/dead-letters?root=${id}`)).json();
  await allHold(server, [
    ['desk-overview', '/'],
    ['desk-jobs-fault', '/jobs?q=colour:red'],
    ['desk-jobs-none', '/jobs?q=type:none'],
    ['desk-dead', '/dead'],
    ['desk-items', `/items?q=root:${id}`],
    ['desk-item-retry', `/items/${data[0].id}?open=retry`],
    ...['replay', 'pin', 'delete'].map((form) => [`desk-job-${form}`, `/jobs/${id}?open=${form}`]),
    ['desk-bulk', '/bulk'],
    ['desk-bulk-new', '/bulk/new'],
    ['desk-bulk-preview', `/bulk/${preview}`],
    ['desk-workers', '/workers'],
    ['desk-types', '/types'],
    ['desk-type', '/types/accounts'],
    ['desk-shortcuts', '/shortcuts'],
  ], /status of 400/);
});

test('the search opens on Ctrl-K, finds while one types, and leads there; without scripts it is a form', async (t) => {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/parcels', { executor: { kind: 'pull' } });
  const made = await server.api('POST', '/jobs', { type: 'parcels', name: '<b>Parcels</b> of March', sealed: true, items: [{ payload: 1 }] });
  const { id } = await made.json();
  const page = await openPage(server, { path: '/workers' });
  await page.keyboard.press('Control+k');
  const palette = page.getByRole('dialog', { name: 'Search and go to' });
  await palette.getByRole('combobox').fill('parcels');
  await palette.getByRole('option', { name: '<b>Parcels</b> of March' }).waitFor();
  await palette.getByRole('option', { name: 'parcels', exact: true }).waitFor();
  await accessible(page);
  await screenshot(page, 'desk-palette');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.waitForURL(new RegExp(`/jobs/${id}$`));

  // Enter waits for the list of what was typed.
  await page.goto('/workers');
  await page.route('**/api/v1/search?*', async (route) => {
    await page.keyboard.press('Enter');
    await route.continue();
  });
  await page.keyboard.press('Control+k');
  await palette.getByRole('combobox').fill('parcels');
  await page.waitForURL(new RegExp(`/jobs/${id}$`));
  await page.unrouteAll();

  // Pages of the sidebar are found, too; Escape closes the palette.
  await page.keyboard.press('Control+k');
  await palette.getByRole('combobox').fill('audit');
  await palette.getByRole('option', { name: 'Audit log' }).waitFor();
  await page.keyboard.press('Escape');
  await palette.waitFor({ state: 'hidden' });

  const plain = await openPage(server, { javaScriptEnabled: false, path: '/workers' });
  await plain.locator('#shell-search input').fill(id);
  await plain.locator('#shell-search input').press('Enter');
  await plain.waitForURL(/\/search\?q=/);
  await plain.getByRole('link', { name: '<b>Parcels</b> of March' }).click();
  await plain.waitForURL(new RegExp(`/jobs/${id}$`));
});
