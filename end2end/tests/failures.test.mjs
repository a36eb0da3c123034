// An error as an issue: its page stays open while it is ignored, resolved, retried and comes back, all of it from outside;
// on a desktop and on a phone. Its forms work without scripts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const MESSAGE = 'no such account';

const made = async (answer, status) => {
  assert.equal(answer.status, status, await answer.clone().text());
  return answer.json();
};

/** A server with two items that failed for the same reason. */
async function failing(t) {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/story', { executor: { kind: 'pull' } });
  const worker = new Worker(server, 'story');
  const items = [{ payload: 1 }, { payload: 2 }];
  await made(await server.api('POST', '/jobs', { type: 'story', name: 'March', sealed: true, items }), 201);
  await failAll(worker, 2);
  const { data } = await made(await server.api('GET', '/dead-letters/groups'), 200);
  const group = `/dead-letters/groups/story/${data[0].fingerprint}`;
  const change = async (patch) => made(await server.api('PATCH', group, patch), 200);
  return { server, worker, change, page: `/dead?error=${data[0].fingerprint}&type=story` };
}

async function failAll(worker, n) {
  const held = await worker.claim(n);
  assert.equal(held.length, n);
  const endings = held.map(({ id }) => ({ assignment_id: id, retryable: false, error: { message: MESSAGE } }));
  await worker.call('/assignments/finish', { endings });
}

const fits = async (page) => {
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(overflow <= 0, `${page.url()} is ${overflow} px too wide`);
  await accessible(page);
};

for (const [device, options] of [['desktop', {}], ['phone', PHONE]]) {
  test(`the page of an error follows its state from outside, and is never loaded again, on a ${device}`, async (t) => {
    const { server, worker, change, page: path } = await failing(t);
    const page = await openPage(server, { path, ...options });
    await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
    await page.evaluate(() => (globalThis.first = true));
    const state = (word) => page.locator('#group-state', { hasText: word }).waitFor();
    await page.getByRole('heading', { level: 1, name: MESSAGE }).waitFor();
    await page.locator('#affected-jobs', { hasText: 'March' }).waitFor();
    await page.locator('#history', { hasText: 'Open since it was first seen.' }).waitFor();

    // What someone types stays while the page changes around it.
    await page.locator('#resolve > summary').click();
    await page.locator('#resolve-note').fill('Fixed in 2.4');
    await change({ state: 'muted', failures: 1000, note: 'known' });
    await state('Ignored');
    await page.locator('#history', { hasText: 'known' }).waitFor();
    await page.locator('main', { hasText: 'for 1,000 more failures' }).waitFor();
    assert.equal(await page.locator('#resolve-note').inputValue(), 'Fixed in 2.4');

    await change({ state: 'resolved', note: 'Deployed 2.4.1' });
    await state('Resolved');
    await page.locator('#history', { hasText: 'Deployed 2.4.1' }).waitFor();

    // The last item is retried: the page stays, with nothing left to retry.
    await page.getByRole('button', { name: 'Retry 2 items…' }).waitFor();
    const { data } = await made(await server.api('GET', '/items?state=dead'), 200);
    for (const item of data) await made(await server.api('POST', `/items/${item.id}/retry`, { reason: 'again' }), 200);
    await page.locator('[data-count]', { hasText: /^0$/ }).waitFor();
    await page.locator('#affected-jobs', { hasText: 'No job has failed items with this error.' }).waitFor();
    assert.equal(await page.getByRole('button', { name: /^Retry/ }).count(), 0);

    // It fails again, so it comes back.
    await failAll(worker, 2);
    await state('Came back');
    await page.getByRole('button', { name: 'Retry 2 items…' }).waitFor();
    await page.locator('.items tbody tr').nth(1).waitFor();
    assert.equal(await page.evaluate(() => globalThis.first), true, 'the page was loaded again');
    await screenshot(page, `failure-${device}`);
    await fits(page);

    await page.goto('/dead');
    await page.locator('.error-groups', { hasText: 'Came back' }).waitFor();
    await page.getByRole('img', { name: '4 failures in the last 24 hours' }).waitFor();
    await screenshot(page, `failures-${device}`);
    await fits(page);
    await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
    await change({ state: 'muted' });
    await page.locator('#groups', { hasText: 'No open errors.' }).waitFor();
    await page.locator('.group-tabs a', { hasText: 'Ignored' }).click();
    await page.locator('.error-groups', { hasText: MESSAGE }).waitFor();
  });
}

/** Refreshes the sections of the page, as a change does. */
const refreshed = (page) =>
  page.evaluate(
    () =>
      new Promise((done) => {
        document.addEventListener('treeline:refreshed', () => done(), { once: true });
        document.dispatchEvent(new CustomEvent('treeline:refresh'));
      }),
  );

test('a refused form keeps its reason and what was typed while the page around it is refreshed', async (t) => {
  const { server, page: path, worker } = await failing(t);
  const page = await openPage(server, { path });
  page.tolerate(/status of 422/);
  const form = page.locator('#mute');
  await form.locator('summary').click();
  await page.locator('#mute-failures').fill('many');
  await form.getByRole('button', { name: 'Ignore' }).click();
  await form.locator('#refusal').waitFor();
  await refreshed(page);
  await page.getByRole('heading', { level: 1, name: MESSAGE }).waitFor();
  assert.equal(await form.locator('#refusal').count(), 1);
  assert.equal(await page.locator('#mute-failures').inputValue(), 'many');
  // The URL of the form leads to the page of the error.
  await page.goto(page.url());
  await page.getByRole('heading', { level: 1, name: MESSAGE }).waitFor();

  const { id } = await made(await server.api('POST', '/jobs', { type: 'story', name: 'April', items: [{ payload: 1 }] }), 201);
  await worker.claim(1);
  await page.goto(`/jobs/${id}?open=cancel`);
  const cancel = page.locator('#page-actions');
  await cancel.getByRole('textbox', { name: /Reason/ }).fill('  ');
  await cancel.getByRole('button', { name: 'Cancel job', exact: true }).click();
  await cancel.locator('#refusal').waitFor();
  await refreshed(page);
  assert.equal(await cancel.locator('#refusal').count(), 1);
});

test('an error is resolved, ignored and reopened by forms without scripts', async (t) => {
  const { server, page: path } = await failing(t);
  const page = await openPage(server, { path, javaScriptEnabled: false });
  page.tolerate(/status of 422/);
  await page.locator('#mute > summary').click();
  await page.locator('#mute-failures').fill('many');
  await page.locator('#mute').getByRole('button', { name: 'Ignore' }).click();
  await page.locator('#mute #refusal').waitFor();
  await page.locator('#mute-failures').fill('10');
  await page.locator('#mute-hours').selectOption({ label: 'For 1 day' });
  await page.locator('#mute').getByRole('button', { name: 'Ignore' }).click();
  await page.locator('#group-state', { hasText: 'Ignored' }).waitFor();
  await page.locator('main', { hasText: 'or for 10 more failures' }).waitFor();
  await page.locator('#resolve > summary').click();
  await page.locator('#resolve-note').fill('Deployed 2.4.1');
  await page.locator('#resolve').getByRole('button', { name: 'Resolve' }).click();
  await page.locator('#group-state', { hasText: 'Resolved' }).waitFor();
  await page.getByRole('button', { name: 'Reopen' }).click();
  await page.locator('#history', { hasText: 'Reopened by' }).waitFor();
});
