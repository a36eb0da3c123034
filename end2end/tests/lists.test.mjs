// Live lists: rows change in place and do not move; exactly the selected rows are retried, with and without scripts;
// the filter has completion by keyboard.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holds, openPage, screenshot, startServer, whenLive } from '../harness.mjs';
import { Worker } from '../worker.mjs';

/** A tree of one job with so many items. */
async function job(server, type, name, n) {
  const items = Array.from({ length: n }, (_, at) => ({ payload: { n: at } }));
  const made = await server.api('POST', '/jobs', { type, name, sealed: true, items });
  assert.equal(made.status, 201, await made.clone().text());
  return (await made.json()).id;
}

/** A server with these job types. */
async function serverWith(t, ...types) {
  const server = await startServer(t);
  for (const type of types) await server.api('PUT', `/job-types/${type}`, { executor: { kind: 'pull' } });
  return server;
}

/** A job of dead items, and their ids in the list's order. */
async function graveyard(server, n) {
  const id = await job(server, 'story', 'March', n);
  const worker = new Worker(server, 'story');
  for (let seen = 0; seen < n; ) {
    const held = await worker.claim(100);
    seen += held.length;
    const endings = held.map((one) => ({ assignment_id: one.id, retryable: false, error: { message: `no account ${one.item.payload.n}` } }));
    await worker.call('/assignments/finish', { endings });
  }
  return { id, items: await inState(server, id, 'dead') };
}

/** The ids of a job's items in a state, as the API lists them. */
async function inState(server, id, state) {
  const { data } = await (await server.api('GET', `/items?job=${id}&state=${state}&limit=1000`)).json();
  return data.map((item) => item.id);
}

/** Numbers of a row: succeeded, failed, total. */
const numbers = (row) => Promise.all(['Done', 'Failed', 'All'].map((label) => row.locator(`[data-label=${label}]`).innerText()));

test('under a thousand updates nothing moves: selection, focus, place and order stay, and the numbers are true', async (t) => {
  const server = await serverWith(t, 'story');
  const [rows, each] = [25, 40];
  const ids = [];
  for (let at = 0; at < rows; at += 1) ids.unshift(await job(server, 'story', `Job ${at}`, each));
  const page = await openPage(server, { path: '/jobs', viewport: { width: 1280, height: 600 } });
  await whenLive(page);
  for (const at of [8, 9, 11]) await page.locator('.jobs tbody input').nth(at).check();
  await page.locator('.jobs tbody th a').nth(10).focus();
  await page.evaluate(() => {
    globalThis.moved = 0;
    new MutationObserver((records) => (globalThis.moved += records.length)).observe(document.querySelector('.jobs tbody'), { childList: true });
  });
  const seen = () =>
    page.evaluate(() => ({
      ticked: [...document.querySelectorAll('.jobs tbody input:checked')].map((box) => box.value),
      order: [...document.querySelectorAll('.jobs tbody input')].map((box) => box.value),
      focus: document.activeElement.getAttribute('href'),
      scroll: scrollY,
      tops: [...document.querySelectorAll('.jobs tbody tr')].map((row) => row.getBoundingClientRect().top),
      moved: globalThis.moved,
    }));
  const before = await seen();
  assert.deepEqual(before.order, ids);
  assert.deepEqual(before.ticked, [ids[8], ids[9], ids[11]]);

  const worker = new Worker(server, 'story');
  for (let done = 0; done < rows * each; ) {
    const held = await worker.claim(25);
    const endings = held.map(({ id, item }) =>
      item.payload.n % 10 === 0
        ? { assignment_id: id, retryable: false, error: { message: 'no account' } }
        : { assignment_id: id, result: {} },
    );
    await worker.call('/assignments/finish', { endings });
    done += held.length;
    if (done === 500) for (const name of ['New 1', 'New 2', 'New 3']) await job(server, 'story', name, 0);
  }
  await page.getByRole('link', { name: 'Show 3 new' }).waitFor();
  for (const [at, id] of ids.entries()) {
    const row = page.locator('.jobs tbody tr').nth(at);
    await row.getByText('Partly failed').waitFor();
    const { counts } = (await (await server.api('GET', `/jobs/${id}`)).json()).tree;
    assert.deepEqual(await numbers(row), [String(counts.succeeded), String(counts.dead), String(each)]);
  }
  assert.deepEqual(await seen(), before);
  assert.equal(await page.locator('.selection-count').innerText(), '3 selected');
  await screenshot(page, 'lists-under-fire');

  await page.getByRole('link', { name: 'Show 3 new' }).click();
  await page.getByRole('link', { name: 'New 3' }).waitFor();
  assert.equal(await page.locator('.jobs tbody tr').count(), rows + 3);
  assert.equal(await page.getByRole('link', { name: /^Show/ }).isVisible(), false);
});

test('what is new is told as far as it is certain; what leaves the filter or the world stays in its place', async (t) => {
  const server = await serverWith(t, 'story', 'other');
  const id = await job(server, 'story', 'March', 1);
  const gone = await job(server, 'story', 'April', 0);
  const waiting = await openPage(server, { path: '/jobs?q=status:waiting' });
  const sought = await openPage(server, { path: '/jobs?q=May' });
  const all = await openPage(server, { path: '/jobs?q=type:story' });
  for (const page of [waiting, sought, all]) await whenLive(page);

  await job(server, 'other', 'May', 1);
  await waiting.getByRole('link', { name: 'Show 1 new' }).waitFor();
  await sought.getByRole('link', { name: '1 new job: see whether it fits' }).click();
  await sought.locator('.jobs').getByRole('link', { name: 'May' }).waitFor();
  await job(server, 'story', 'June', 1);
  await all.getByRole('link', { name: 'Show 1 new' }).waitFor();

  const worker = new Worker(server, 'story');
  await worker.finish(await worker.claim(10));
  const march = waiting.locator('.jobs tbody tr', { hasText: 'March' });
  await march.getByText('Completed').waitFor();
  assert.match(await march.getAttribute('class'), /row-left/);
  // June has started, too: it would not be shown any more.
  await waiting.getByRole('link', { name: 'Show 1 new' }).waitFor();
  assert.equal((await server.api('DELETE', `/jobs/${gone}`, { reason: 'a test' })).status, 204);
  await all.locator('.jobs tbody tr', { hasText: 'April' }).getByText('removed').waitFor();
  await screenshot(all, 'lists-left');
  assert.equal((await server.api('GET', `/jobs/${id}`)).status, 200);
});

test('after a break the page is true again, older rows than the stream begins with among them', async (t) => {
  const server = await serverWith(t, 'old', 'story');
  const old = [await job(server, 'old', 'March', 3), await job(server, 'old', 'April', 2)];
  for (let at = 0; at < 101; at += 1) await job(server, 'story', `Job ${at}`, 0);
  const page = await openPage(server, { path: '/jobs?q=type:old' });
  await whenLive(page);
  await page.getByRole('button', { name: 'Pause' }).click();
  await whenLive(page, 'paused');
  const worker = new Worker(server, 'old');
  for (let done = 0; done < 5; ) {
    const held = await worker.claim(10);
    await worker.finish(held);
    done += held.length;
  }
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.locator('.jobs tbody tr', { hasText: 'April' }).getByText('Completed').waitFor({ timeout: 5_000 });
  await page.locator('.jobs tbody tr', { hasText: 'March' }).getByText('Completed').waitFor({ timeout: 5_000 });
  assert.deepEqual(await numbers(page.locator('.jobs tbody tr').nth(1)), ['3', '0', '3']);
  assert.equal(old.length, 2);
});

test('three dead items are ticked by mouse or by keys, and exactly these are given back', async (t) => {
  const server = await serverWith(t, 'story');
  const { id, items } = await graveyard(server, 12);
  const page = await openPage(server, { path: '/dead' });
  const box = (at) => page.locator(`.items input[value="${items[at]}"]`);
  const count = page.locator('.selection-count');
  const form = page.locator('#selection');
  assert.equal(await form.isVisible(), false);

  // Mouse: a range, then the page, then all.
  await box(2).click();
  await box(5).click({ modifiers: ['Shift'] });
  assert.equal(await count.innerText(), '4 selected');
  await page.getByLabel('Select all on this page').check();
  assert.equal(await count.innerText(), '12 selected');
  await page.getByLabel('All 12 that match').check();
  assert.equal(await count.innerText(), 'All selected');
  await screenshot(page, 'lists-all');
  await box(0).uncheck();
  assert.equal(await count.innerText(), '11 selected');
  await page.keyboard.press('Escape');
  assert.equal(await form.isVisible(), false);
  assert.equal(await page.locator('.items tbody input:checked').count(), 0);

  // Keyboard: the second row, then from the fourth to the fifth.
  await page.locator('h1').click();
  for (const key of ['j', 'j', 'x', 'j', 'j', 'x', 'j', 'Shift+X']) await page.keyboard.press(key);
  assert.equal(await count.innerText(), '3 selected');
  const ticked = await page.locator('.items tbody input:checked').evaluateAll((boxes) => boxes.map((it) => it.value));
  assert.deepEqual(ticked, [items[1], items[3], items[4]]);
  await page.getByRole('button', { name: 'Retry selected…' }).click();
  await page.getByText('3 items match. Nothing has changed yet.').waitFor();
  await screenshot(page, 'lists-preview');
  await page.getByRole('textbox', { name: /^Reason/ }).fill('The accounts were opened');
  await page.getByRole('button', { name: 'Retry 3 items' }).click();
  await page.getByText('Done: all 3 items were retried.').waitFor();
  assert.deepEqual(await inState(server, id, 'available'), ticked);
  assert.deepEqual(await inState(server, id, 'dead'), items.filter((item) => !ticked.includes(item)));

  // Without scripts: only checkboxes and buttons.
  const plain = await openPage(server, { javaScriptEnabled: false, path: `/items?q=job:${id}+state:dead` });
  await plain.getByText('All 9 that match').waitFor();
  const chosen = [items[0], items[7], items[11]];
  for (const item of chosen) await plain.locator(`.items input[value="${item}"]`).check();
  await plain.getByRole('button', { name: 'Retry selected…' }).click();
  await plain.getByText('3 items match. Nothing has changed yet.').waitFor();
  await plain.locator('input[name=reason]').fill('The bank said yes');
  await plain.getByRole('button', { name: 'Retry 3 items' }).click();
  for (let tries = 0; (await plain.getByText('Done:').count()) === 0; tries += 1) {
    assert.ok(tries < 100, 'the operation never ends');
    await plain.reload();
  }
  const back = new Set([...ticked, ...chosen]);
  assert.deepEqual(await inState(server, id, 'available'), items.filter((item) => back.has(item)));

  // Without a selection nothing is done.
  plain.tolerate(/status of 422/);
  await plain.goto('/dead');
  await plain.getByRole('button', { name: 'Retry selected…' }).click();
  await plain.getByText('Nothing was selected').waitFor();
});

test('the filter completes names and values by keys alone', async (t) => {
  const server = await serverWith(t, 'story', 'other');
  await job(server, 'story', 'March', 1);
  const page = await openPage(server, { path: '/jobs' });
  const field = page.locator('#filter');
  const options = page.getByRole('listbox', { name: 'Suggestions' }).getByRole('option');
  const active = async () => page.locator(`#${await field.getAttribute('aria-activedescendant')}`).innerText();
  await page.keyboard.press('/');
  await page.keyboard.type('sta');
  assert.deepEqual((await options.allInnerTexts()).map((text) => text.split(/\s/)[0]), ['status:', 'stalled:']);
  assert.equal(await field.getAttribute('aria-expanded'), 'true');
  await page.keyboard.press('ArrowDown');
  assert.match(await active(), /^status:/);
  await page.keyboard.press('Enter');
  assert.equal(await field.inputValue(), 'status:');
  assert.deepEqual(await options.allInnerTexts(), ['waiting', 'running', 'cancelling', 'completed']);
  await screenshot(page, 'lists-filter');
  await page.keyboard.type('w');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  assert.equal(await field.inputValue(), 'status:waiting ');
  await page.keyboard.type('typ');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.keyboard.type('st');
  await page.keyboard.press('ArrowDown');
  assert.equal(await active(), 'story');
  await page.keyboard.press('Enter');
  assert.equal(await options.count(), 0);

  // Escape closes the list and keeps the text; other values are typed by hand, and Enter submits them.
  await page.keyboard.type('out');
  assert.equal(await options.count(), 1);
  await page.keyboard.press('Escape');
  assert.equal(await options.count(), 0);
  assert.equal(await field.inputValue(), 'status:waiting type:story out');
  for (let at = 0; at < 3; at += 1) await page.keyboard.press('Backspace');
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.searchParams.get('q')?.trim() === 'status:waiting type:story');
  await page.getByRole('link', { name: 'March' }).waitFor();
  // Within quotation marks nothing is suggested.
  await page.keyboard.press('/');
  await page.keyboard.type('"sta');
  assert.equal(await options.count(), 0);
});

test('lists with a selection and with news hold on every size and scheme, without a fault that axe can find', async (t) => {
  const server = await serverWith(t, 'story');
  const { id } = await graveyard(server, 30);
  for (let at = 0; at < 12; at += 1) await job(server, 'story', `Job ${at}`, at);
  for (const width of [320, 1280]) {
    const page = await openPage(server, { viewport: { width, height: 800 } });
    for (const [name, path] of [
      ['dead', '/dead'],
      ['items', `/items?q=job:${id}`],
      ['jobs', '/jobs'],
    ]) {
      await page.goto(path);
      for (const at of [0, 1, 4]) await page.locator('tbody input[name=id]').nth(at).check();
      if (name === 'jobs') {
        await whenLive(page);
        await job(server, 'story', 'One more', 1);
        await page.getByRole('link', { name: 'Show 1 new' }).waitFor();
      }
      await holds(page, `lists-${name}`);
    }
    await page.getByLabel('Select all on this page').check();
    await holds(page, 'lists-jobs-page');
    await page.locator('#filter').click();
    await page.keyboard.press('ArrowDown');
    await holds(page, 'lists-filter');
  }
});
