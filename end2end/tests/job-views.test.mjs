// Views of a job and the page of a worker: graph, timeline, results, activity, and charts; live, with the keyboard, without a script,
// and on a phone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allHold, openPage, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

/** A tree with a feed and a job that waits for two others. */
async function tree(server) {
  await server.api('PUT', '/job-types/story', { executor: { kind: 'pull' }, max_failures: 1 });
  const items = (n) => Array.from({ length: n }, (_, at) => ({ payload: { n: at } }));
  const answer = await server.api('POST', '/jobs', {
    type: 'story',
    key: 'march',
    name: 'March',
    sealed: true,
    items: items(24),
    children: [
      { type: 'story', key: 'checks', feed: {} },
      { type: 'story', key: 'ledger', sealed: true, items: items(2) },
      { type: 'story', key: 'report', sealed: true, items: items(1), after: ['checks', 'ledger'] },
    ],
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return answer.json();
}


test('a graph follows the work, and its nodes are links for the keyboard', async (t) => {
  const server = await startServer(t);
  const { id, children } = await tree(server);
  const page = await openPage(server, { path: `/jobs/${id}?view=graph` });
  await whenLive(page);
  const node = (name) => page.locator(`.dag a[aria-label^="${name}:"]`);
  assert.equal(await page.locator('.dag a').count(), 4);
  assert.equal(await node('checks').getAttribute('aria-label'), 'checks: Waiting, No items yet');
  const worker = new Worker(server, 'story');
  await node('checks').focus();
  const held = await worker.claim(3);
  await worker.finish(held.slice(0, 1));
  await worker.call(`/assignments/${held[1].id}/failure`, { error: { message: 'no' }, retryable: false });
  await page.locator('.dag a[aria-label^="March: In progress, 2 of 24, 1 failed"]').waitFor();
  await page.locator('.dag a[aria-label^="checks: Waiting, 0 of 1"]').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'checks: Waiting, 0 of 1');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/jobs/${children[0].id}`);
});

test('a timeline is zoomed by links without a script', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const worker = new Worker(server, 'story');
  await worker.finish(await worker.claim(10));
  const page = await openPage(server, { path: `/jobs/${id}?view=timeline`, javaScriptEnabled: false });
  const zoom = (name) => page.getByRole('navigation', { name: 'Part of the timeline' }).getByRole('link', { name });
  assert.equal(await zoom('Whole timeline').count(), 0);
  await zoom('Zoom in').click();
  assert.match(page.url(), /view=timeline&from=.*&to=/);
  await zoom('Later').click();
  await zoom('Earlier').click();
  await zoom('Whole timeline').click();
  assert.ok(page.url().endsWith(`/jobs/${id}?view=timeline`));
  await page.getByRole('navigation', { name: 'Views of the job' }).getByRole('link', { name: 'Graph' }).click();
  assert.equal(await page.locator('.dag a').count(), 4);
  await page.locator('#graph-data summary').click();
  assert.equal(await page.locator('#graph-data tbody tr').count(), 4);
});

test('a chart of the job and the page of its worker grow with the work', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const page = await openPage(server, { path: `/jobs/${id}` });
  await whenLive(page);
  const worker = new Worker(server, 'story');
  const held = await worker.claim(4);
  await page.locator('#throughput-data summary').click();
  await worker.finish(held.slice(0, 2));
  const sum = (name) =>
    page.waitForFunction(
      ([label, wanted]) => {
        const cells = [...document.querySelectorAll(`#throughput-data td[data-label="${label}"]`)];
        return cells.reduce((all, cell) => all + Number(cell.textContent), 0) === wanted;
      },
      name,
    );
  await sum(['Succeeded', 2]);
  await worker.call(`/assignments/${held[2].id}/failure`, { error: { message: 'no account 12' }, retryable: false });
  await sum(['Failed', 1]);
  assert.ok(await page.locator('#throughput-data').evaluate((details) => details.open), 'it stays open');

  await page.goto('/workers');
  await page.getByRole('link', { name: 'story', exact: true }).click();
  await page.getByRole('heading', { name: 'story', level: 1 }).waitFor();
  await page.getByText('no account 12').waitFor();
  await page.locator('#claimed tbody tr').waitFor();
  await worker.finish(held.slice(3));
  await page.getByText('Holds no items now.').waitFor();
  await screenshot(page, 'worker');
});

test('the views hold on a desktop and on a phone, without a fault that axe can find', async (t) => {
  const server = await startServer(t);
  const { id } = await tree(server);
  const worker = new Worker(server, 'story');
  const held = await worker.claim(12);
  await worker.finish(held.slice(0, 8));
  await worker.call(`/assignments/${held[8].id}/failure`, { error: { message: 'no such user 12' }, retryable: false });
  await server.api('POST', `/items/${held[8].item.id}/retry`, { reason: 'the account was opened' });
  const list = await openPage(server, { path: '/workers' });
  const workerPath = await list.getByRole('link', { name: 'story', exact: true }).getAttribute('href');
  await allHold(server, [
    ['job-chart', `/jobs/${id}`],
    ['job-graph', `/jobs/${id}?view=graph`],
    ['job-timeline', `/jobs/${id}?view=timeline`],
    ['job-results', `/jobs/${id}?view=results`],
    ['job-activity', `/jobs/${id}?view=activity`],
    ['worker', workerPath],
  ]);
});
