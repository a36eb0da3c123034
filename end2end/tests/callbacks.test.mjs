// Webhook deliveries for people: a rejected one is sent again from the page of its tree, with and without scripts; and
// the pages in every size and color scheme.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { allHold, openPage, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const quick = { TREELINE_CALLBACK_ALLOW: '127.0.0.1' };

/** A receiver that sends these responses, the last one forever; the received messages by webhook-id. */
async function receiver(t, ...answers) {
  const received = [];
  const server = createServer((request, response) => {
    received.push(request.headers['webhook-id']);
    const [status, text] = answers.length > 1 ? answers.shift() : answers[0];
    request.resume().on('end', () => response.writeHead(status).end(text));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  t.after(() => new Promise((closed) => server.close(closed)));
  return { url: `http://127.0.0.1:${server.address().port}/done?key=secret`, received };
}

/** A complete tree that calls this URL. */
async function called(server, url) {
  await server.api('PUT', '/job-types/a', {});
  const made = await server.api('POST', '/jobs', { type: 'a', name: 'March', sealed: true, on_completed: { url } });
  assert.equal(made.status, 201, await made.clone().text());
  return (await made.json()).id;
}

test('a callback that was refused is sent again from the page of its tree', async (t) => {
  const server = await startServer(t, quick);
  const there = await receiver(t, [410, 'no more of this'], [410, 'really'], [204, '']);
  const id = await called(server, there.url);
  const page = await openPage(server, { path: '/' });
  // The alert links to it.
  await page.getByText('Webhook gave up').waitFor();
  await page.getByRole('link', { name: 'Open webhook', exact: true }).click();
  await page.waitForURL(new RegExp(`/jobs/${id}#callbacks$`));
  const section = page.locator('#callbacks');
  await section.getByText('rejected').waitFor();
  await section.getByText('410 Gone: no more of this').waitFor();
  assert.ok(!(await page.content()).includes('key=secret'), 'a query may be a secret');
  await screenshot(page, 'callbacks-job');

  // By keyboard only: the form opens, and the first press focuses the missing reason.
  await section.getByText('Send again…').focus();
  await page.keyboard.press('Enter');
  await section.getByLabel(/^Reason/).fill('The receiver was mended');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/deliveries\/[0-9a-f-]{36}$/);
  await page.getByText('Sending again').waitFor();
  await page.getByText('410 Gone: really').waitFor();
  await screenshot(page, 'callbacks-one');

  // Without scripts the same forms work, and a missing reason is shown in place.
  const plain = await openPage(server, { javaScriptEnabled: false, path: '/deliveries?state=failed' });
  plain.tolerate(/status of 422/);
  await plain.locator('tbody tr').getByRole('link').first().click();
  await plain.getByText('Send again…').click();
  await plain.locator('#resend-reason').evaluate((field) => field.removeAttribute('required'));
  await plain.getByRole('button', { name: 'Send again', exact: true }).click();
  await plain.getByText('A reason is required').waitFor();
  await plain.getByLabel(/^Reason/).fill('Once more');
  await plain.getByRole('button', { name: 'Send again', exact: true }).click();
  await plain.waitForURL(/did=resent$/);
  for (;;) {
    await plain.goto('/deliveries?state=delivered');
    if (await plain.getByText('204: accepted').count()) break;
  }
  assert.equal(there.received.length, 3);
  assert.equal(new Set(there.received).size, 1, 'under one id');
});

test('the callback of a job appears on its open page, with the form that sends the shown one again', async (t) => {
  const server = await startServer(t, quick);
  const there = await receiver(t, [204, '']);
  await server.api('PUT', '/job-types/a', { executor: { kind: 'pull' } });
  const items = [{ payload: 1 }];
  const made = await server.api('POST', '/jobs', { type: 'a', name: 'March', sealed: true, items, on_completed: { url: there.url } });
  const { id } = await made.json();
  const page = await openPage(server, { path: `/jobs/${id}` });
  await whenLive(page);
  await page.evaluate(() => (globalThis.first = true));
  assert.equal(await page.locator('#callbacks').count(), 0);
  const worker = new Worker(server, 'a');
  const [held] = await worker.claim(1);
  await worker.call('/assignments/finish', { endings: [{ assignment_id: held.id, retryable: false, error: { message: 'no account' } }] });
  const rows = page.locator('#callbacks tbody tr');
  await rows.filter({ hasText: 'Delivered' }).waitFor();
  const target = () => page.locator('#callbacks #resend form').getAttribute('action');
  const shown = async () => `${await rows.first().getByRole('link').getAttribute('href')}/resend`;
  assert.equal(await target(), await shown());
  await server.api('POST', `/items/${held.item.id}/retry`, { reason: 'again' });
  await worker.finish(await worker.claim(1));
  await rows.nth(1).waitFor();
  assert.equal(await target(), await shown());
  assert.equal(await page.evaluate(() => globalThis.first), true, 'the page was loaded again');
});

test('the pages of callbacks hold on every size and scheme, without a fault that axe can find', async (t) => {
  const server = await startServer(t, quick);
  const gone = await receiver(t, [410, `<b>${'x'.repeat(300)}</b>`]);
  const away = await receiver(t, [503, 'we are painting the walls']);
  const id = await called(server, gone.url);
  await called(server, away.url);
  const states = async () => {
    const { data } = await (await server.api('GET', '/deliveries')).json();
    return data.filter((one) => one.tries.length > 0);
  };
  while ((await states()).length < 2);
  const { data } = await (await server.api('GET', `/jobs/${id}/deliveries`)).json();
  await allHold(server, [
    ['callbacks-list', '/deliveries'],
    ['callbacks-none', '/deliveries?state=superseded'],
    ['callbacks-fault', '/deliveries?state=odd'],
    ['callbacks-one', `/deliveries/${data[0].id}?open=resend`],
    ['callbacks-job', `/jobs/${id}`],
  ], /status of 400/);
});
