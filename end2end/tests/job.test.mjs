// A job and its tree, live: bars per job, active items with their own bars; in every size and color scheme.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allHold, openPage, refreshed, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

/** A tree of three jobs with work for the test's worker. */
async function tree(server) {
  await server.api('PUT', '/job-types/story', { executor: { kind: 'pull' } });
  const items = (n) => Array.from({ length: n }, (_, at) => ({ payload: { n: at } }));
  const answer = await server.api('POST', '/jobs', {
    type: 'story',
    key: 'march',
    name: 'March',
    sealed: true,
    items: items(5),
    children: [
      { type: 'story', key: 'checks', sealed: true, items: items(20) },
      { type: 'story', key: 'letters', sealed: true, items: items(10), children: [{ type: 'story', key: 'archive', sealed: true, items: items(3) }] },
    ],
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return answer.json();
}

test('a tree is watched with the items in flight, each with its own bar', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const page = await openPage(server, { path: `/jobs/${id}` });
  await whenLive(page);
  await page.getByText('No worker has asked for them yet.').waitFor();
  const worker = new Worker(server, 'story');
  const held = await worker.claim(3);

  await page.locator('.active-items tbody tr').nth(2).waitFor();
  await worker.progress(held[0], 3, 10, 'reading');
  const bar = page.locator('.active-items progress[value="3"]');
  await bar.waitFor();
  assert.equal(await bar.getAttribute('max'), '10');
  await page.getByText('3 of 10 · reading').waitFor();
  await worker.progress(held[0], 9, 10, 'writing');
  await page.locator('.active-items progress[value="9"]').waitFor();
  await screenshot(page, 'job-running');

  await worker.call(`/assignments/${held[1].id}/failure`, {
    error: { message: '<img src=x onerror=alert(1)>', kind: 'hostile' },
    retryable: false,
  });
  await worker.finish([held[0], held[2]]);
  do await worker.finish(await worker.claim(100));
  while ((await server.query('select 1 from lease union all select 1 from ready')).length > 0);
  await whenLive(page, 'finished');
  await page.getByText('Job complete, 1 of 38 failed').first().waitFor();
  await page.reload();
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  assert.equal(await page.getByText('No worker has asked').count(), 0);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  assert.deepEqual(await timeline.getByRole('rowheader').allInnerTexts(), ['March', 'checks', 'letters', 'archive']);
  await screenshot(page, 'job-finished');
});

test('a confirmation says the numbers of the moment it opens, and what can be done follows the state', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const page = await openPage(server, { path: `/jobs/${id}` });
  await whenLive(page);
  const verb = page.locator('#cancel > summary');
  const text = page.locator('#cancel .confirm > p');
  assert.match(await text.textContent(), /^38 waiting items will not run/);
  const worker = new Worker(server, 'story');
  const held = await worker.claim(3);
  await worker.finish(held.slice(1));
  await page.locator('.meter-number', { hasText: '5%' }).waitFor();
  await verb.click();
  await text.getByText('35 waiting items will not run. 1 in progress is told to stop.').waitFor();
  assert.ok(await page.locator('#cancel').evaluate((menu) => menu.open), 'it stays open while its numbers come');

  // Somebody else cancels the job: this page shows the actions that are available now.
  assert.equal((await server.api('POST', `/jobs/${id}/cancel`, {})).status, 200);
  await worker.call(`/assignments/${held[0].id}/release`, {});
  await page.locator('#replay > summary').waitFor();
  assert.equal(await verb.count(), 0);

  // A form is one order, whatever is refreshed around it: its Idempotency-Key stays.
  const key = await page.locator('#replay input[name=key]').getAttribute('value');
  await refreshed(page);
  assert.equal(await page.locator('#replay input[name=key]').getAttribute('value'), key);
});

test('the pages hold on every size and scheme, without a fault that axe can find', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const worker = new Worker(server, 'story');
  const held = await worker.claim(4);
  await worker.progress(held[0], 2, 4, 'half way');
  await worker.call(`/assignments/${held[1].id}/failure`, { error: { message: 'no such user 12' }, retryable: false });
  const item = held[1].item.id;
  await allHold(server, [
    ['imports', '/imports'],
    ['new', '/imports/new'],
    ['import', `/imports/${id}`],
    ['jobs', '/jobs'],
    ['job', `/jobs/${id}`],
    ['item', `/items/${item}`],
  ]);
});
