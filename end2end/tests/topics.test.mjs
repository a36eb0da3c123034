// Pages that show state live without a reload and without polling: changes are visible within a second in every tab,
// and a browser holds one stream however many tabs it has.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, iconsAreThere, openPage, refreshed, startServer } from '../harness.mjs';
import { Worker } from '../worker.mjs';

/** The promise is one second; a machine that builds and tests in parallel gets three. */
const SOON = 3_000;

const made = async (answer, status = 201) => {
  assert.equal(answer.status, status, await answer.clone().text());
  return answer.json();
};

/** A server with a job type and a worker. */
async function story(t) {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/story', { executor: { kind: 'pull' }, steps: ['fetched', 'checked'] });
  return { server, worker: new Worker(server, 'story') };
}

const items = (n) => Array.from({ length: n }, (_, at) => ({ payload: { at } }));
const job = async (server, n = 1) => made(await server.api('POST', '/jobs', { type: 'story', name: 'March', sealed: true, items: items(n) }));

/** An item that fails for good. */
async function fail(server, worker, message) {
  await job(server);
  const [held] = await worker.claim(1);
  await worker.call('/assignments/finish', { endings: [{ assignment_id: held.id, retryable: false, error: { message } }] });
  return held.item.id;
}

/** Opens a page that must never reload, and waits until it is live. */
async function watching(server, path, context) {
  const page = context ? await context.newPage() : await openPage(server);
  await page.goto(path);
  await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
  await page.evaluate(() => (globalThis.first = true));
  return page;
}

/** Each change is visible on all these pages within a second, and none of them has reloaded. */
async function shows(pages, act, seen) {
  await act();
  const began = performance.now();
  await Promise.all(pages.map((page) => seen(page)));
  const took = performance.now() - began;
  for (const page of pages) assert.equal(await page.evaluate(() => globalThis.first), true, `${page.url()} was loaded again`);
  assert.ok(took < SOON, `it took ${Math.round(took)} ms`);
}

const text = (selector, wanted) => (page) =>
  page.waitForFunction(([selector, wanted]) => [...document.querySelectorAll(selector)].some((it) => it.textContent.includes(wanted)), [selector, wanted], { timeout: 10_000 });
const gone = (selector) => (page) => page.waitForFunction((selector) => !document.querySelector(selector), selector, { timeout: 10_000 });

test('failures come, count and go before one’s eyes, in two tabs, and what is ticked stays ticked', async (t) => {
  const { server, worker } = await story(t);
  const page = await watching(server, '/dead');
  const second = await watching(server, '/dead', page.context());
  const both = [page, second];
  await shows(both, () => fail(server, worker, 'no account'), text('#groups .issue-message', 'no account'));
  // The list was empty: its icons came with it.
  await iconsAreThere(page);
  await shows(both, () => fail(server, worker, 'no account'), text('#groups [data-count]', '2'));
  await shows(both, () => fail(server, worker, 'out of paper'), text('#groups', 'out of paper'));

  // Rows do not move during a selection; the counts are current all the same.
  await page.locator('#rows tbody input').first().check();
  const ticked = await page.locator('#rows tbody input:checked').inputValue();
  await shows([page], () => fail(server, worker, 'no account'), text('#groups [data-count]', '3'));
  assert.equal(await page.locator('#rows tbody input:checked').inputValue(), ticked);
  assert.equal(await page.locator('#rows tbody tr').count(), 3);
  await page.getByRole('button', { name: 'Show 1 new' }).waitFor();
  await page.locator('#rows tbody input:checked').uncheck();
  await page.mouse.move(0, 0);
  await page.locator('#filter').focus();
  await page.waitForFunction(() => document.querySelectorAll('#rows tbody tr').length === 4);
  await page.getByRole('button', { name: /new$/ }).waitFor({ state: 'hidden' });

  // The sidebar shows the number of the newest message, also if a refreshed page has an older one.
  await text('[data-dead]', '4')(page);
  await page.route('**/dead', async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/(data-dead[^>]*>)\d+/, (_, tag) => `${tag}1`);
    return route.fulfill({ response, body });
  });
  await refreshed(page);
  assert.equal(await page.locator('[data-dead]').first().innerText(), '4');
  await page.unrouteAll();

  const { data } = await made(await server.api('GET', '/items?state=dead'), 200);
  const retry = async () => {
    for (const item of data) await made(await server.api('POST', `/items/${item.id}/retry`, { reason: 'again' }), 200);
  };
  await shows(both, retry, gone('#groups'));
});

test('an item says how far it is, ends and is retried before one’s eyes', async (t) => {
  const { server, worker } = await story(t);
  await job(server);
  const [held] = await worker.claim(1);
  const page = await watching(server, `/items/${held.item.id}`);
  const second = await watching(server, `/items/${held.item.id}`, page.context());
  const both = [page, second];
  await shows(both, () => worker.progress(held, 3, 10, 'reading'), text('#progress', '3 of 10 · reading'));
  assert.equal(await page.locator('#progress').isVisible(), true);
  const step = () => worker.call(`/assignments/${held.id}/step`, { name: 'fetched', data: { page: 7 } });
  await shows(both, step, text('#step', 'fetched'));
  await worker.call(`/assignments/${held.id}/step`, { name: 'checked', data: { page: 8 } });
  await page.waitForFunction(() => /8/.test(document.querySelector('#step .doc').textContent));
  assert.match(await page.locator('#step textarea').evaluate((source) => source.value), /8/, 'what is copied is what is shown');

  // A refresh that fails is repeated, also after the last change.
  page.tolerate(/status of 503/);
  let isRefused = false;
  await page.route(`**/items/${held.item.id}`, (route) => {
    if (isRefused) return route.continue();
    isRefused = true;
    return route.fulfill({ status: 503 });
  });
  const end = () => worker.call('/assignments/finish', { endings: [{ assignment_id: held.id, retryable: false, error: { message: 'no account' } }] });
  await shows([second], end, text('#state', 'failed'));
  await text('#state', 'failed')(page);
  assert.ok(isRefused);
  await text('#attempts', 'no account')(page);
  await shows(both, () => server.api('POST', `/items/${held.item.id}/retry`, { reason: 'again' }), gone('#state .s-dead'));
});

test('the indicator says whether the page is live, stale, signed out or removed', async (t) => {
  const { server } = await story(t);
  const { id } = await job(server);
  const { data } = await made(await server.api('GET', `/items?job=${id}`), 200);
  const page = await openPage(server);
  page.tolerate(/ERR_|status of 4/);
  await page.clock.install();
  await page.goto(`/items/${data[0].id}`);
  const pill = (state) => page.locator(`#stream .pill-${state}`);
  await pill('live').waitFor();
  await accessible(page);

  // Away: the page says so after 3 s, and after 15 s since when.
  await server.kill();
  const until = async (state) => {
    for (let tries = 0; !(await pill(state).isVisible()); tries += 1) {
      assert.ok(tries < 200, `it is not ${state}`);
      await page.clock.runFor(500);
    }
  };
  await until('reconnecting');
  await until('stale');
  assert.match(await pill('stale').innerText(), /^\s*Stale since \d+:\d\d/);
  await page.locator('#stream [role="status"]', { hasText: 'Stale' }).waitFor({ state: 'attached' });
  await accessible(page);
  await server.start();
  await until('live');

  // Deleted: what can be done is not offered any more.
  await page.locator('#page-actions').waitFor();
  await made(await server.api('POST', `/jobs/${id}/cancel`, { reason: 'test' }), 200);
  assert.equal((await server.api('DELETE', `/jobs/${id}`, { reason: 'test' })).status, 204);
  await until('removed');
  await page.locator('#page-actions').waitFor({ state: 'hidden' });

  await page.goto('/types');
  await pill('live').waitFor();
  await server.query('delete from session');
  await server.kill();
  await server.start();
  await until('signed-out');
  assert.equal(await pill('signed-out').getAttribute('href'), '/sign-in?back=%2Ftypes');
  await accessible(page);
});

test('a topic that the server refuses leaves the other topics of the page alone', async (t) => {
  const { server } = await story(t);
  const page = await watching(server, '/types');
  const opened = [];
  page.on('request', (request) => request.url().includes('/events?') && opened.push(request.url()));
  const stream = () => page.waitForEvent('request', (request) => request.url().includes('/events?'));
  await page.evaluate(() => {
    document.querySelector('main').insertAdjacentHTML('beforeend', '<p data-topics="item:00000000-0000-7000-8000-000000000000"></p>');
    document.dispatchEvent(new CustomEvent('treeline:refreshed', { detail: { failed: false } }));
  });
  // The stream with the new topic, and then the one without it.
  while (opened.length < 2) await stream();
  assert.ok(opened[0].includes('item:') && !opened[1].includes('item:'), opened.join(' '));
  await shows([page], () => server.api('POST', '/job-types/story/pause'), text('#list', 'Paused'));
  assert.equal(opened.length, 2);
});

test('numbers that are older than the page are not written, and changes while it was read are not missed', async (t) => {
  const { server, worker } = await story(t);
  await fail(server, worker, 'no account');
  const { data } = await made(await server.api('GET', '/dead-letters/groups'), 200);
  const groups = [{ ...data[0], count: 99 }];
  const page = await openPage(server);
  let version = () => 1;
  await page.route('**/api/v1/events?*', (route) => {
    const body = `retry: 100\nevent: snapshot\ndata: ${JSON.stringify({ topic: 'failures', version: version(), groups, dead: 99 })}\n\n`;
    return route.fulfill({ contentType: 'text/event-stream', body });
  });
  await page.goto('/dead');
  await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
  const count = page.locator('#groups [data-count]');
  assert.equal(await count.innerText(), '1');
  // Published while the page was being read.
  const read = Number(await page.evaluate(() => document.documentElement.dataset.read));
  const refreshed = page.waitForRequest((request) => new URL(request.url()).pathname === '/dead');
  version = () => (read + 1) * 1_000;
  await refreshed;
});

test('a list does not move under the pointer or the focus, and shows how many rows are new', async (t) => {
  const { server, worker } = await story(t);
  await fail(server, worker, 'no account');
  const page = await watching(server, '/dead');
  const rows = page.locator('#rows tbody tr');
  const link = rows.first().locator('th a');
  const first = await link.getAttribute('href');
  const button = (n) => page.getByRole('button', { name: `Show ${n} new` });

  await rows.first().hover();
  await shows([page], () => fail(server, worker, 'no account'), () => button(1).waitFor());
  await shows([page], () => fail(server, worker, 'out of paper'), () => button(2).waitFor());
  assert.equal(await link.getAttribute('href'), first);
  assert.equal(await rows.count(), 1);
  await accessible(page);
  await button(2).click();
  await rows.nth(2).waitFor();
  await button(2).waitFor({ state: 'hidden' });

  // The same row keeps the focus and its link.
  await page.mouse.move(0, 0);
  await rows.nth(1).locator('th a').focus();
  const focused = await page.evaluate(() => document.activeElement.href);
  await shows([page], () => fail(server, worker, 'no account'), () => button(1).waitFor());
  assert.equal(await page.evaluate(() => document.activeElement.href), focused);
  assert.equal(await rows.count(), 3);
  await page.locator('#filter').focus();
  await rows.nth(3).waitFor();
});

test('the log of an item begins at its end and follows while the reader is there', async (t) => {
  const { server, worker } = await story(t);
  await job(server);
  const [held] = await worker.claim(1);
  const add = async (...messages) => worker.call(`/assignments/${held.id}/logs`, { lines: messages.map((message) => ({ message })) });
  await add(...Array.from({ length: 150 }, (_, at) => `line ${at}`));
  const page = await watching(server, `/items/${held.item.id}`);
  const rest = () => page.locator('.log').evaluate((log) => log.scrollHeight - log.clientHeight - log.scrollTop);
  assert.ok((await rest()) < 4, 'at its end');
  await shows([page], () => add('the newest'), text('.log', 'the newest'));
  assert.ok((await rest()) < 4, 'it follows');
  // With each new line the oldest one goes; what is selected stays.
  const selected = () => page.evaluate(() => getSelection().toString());
  await page.locator('.log > li').nth(50).evaluate((line) => getSelection().selectAllChildren(line));
  const before = await selected();
  await shows([page], () => add('the next'), text('.log', 'the next'));
  assert.ok(before && (await selected()) === before);
  await page.locator('.log').evaluate((log) => (log.scrollTop = 0));
  await shows([page], () => add('one more'), text('.log', 'one more'));
  assert.ok((await rest()) > 100, 'a reader who has scrolled up stays there');
});

test('uploads, operations, job types, workers and the overview are as they are now', async (t) => {
  const { server, worker } = await story(t);
  const types = await watching(server, '/types');
  const context = types.context();
  await shows([types], () => server.api('POST', '/job-types/story/pause'), text('#list', 'Paused'));
  const type = await watching(server, '/types/story', context);
  await shows([types, type], () => server.api('POST', '/job-types/story/resume'), (page) =>
    page.waitForFunction(() => !/Paused/.test(document.querySelector('main').textContent), null, { timeout: 10_000 }));

  const operations = await watching(server, '/bulk', context);
  await fail(server, worker, 'no account');
  const retry = { action: 'retry', target: 'items', filter: { state: 'dead' }, reason: 'again' };
  await shows([operations], async () => made(await server.api('POST', '/bulk-operations', retry), 202), text('#list tbody', 'Retry'));

  const overview = await watching(server, '/', context);
  const workers = await watching(server, '/workers', context);
  const other = new Worker(server, 'story');
  other.call('/assignments', { worker_id: 'newcomer', types: ['story'], max: 1 });
  await text('#workers', 'newcomer')(workers);
  await text('#overview', 'story')(overview);
  for (const page of [overview, workers]) assert.equal(await page.evaluate(() => globalThis.first), true);
});

test('one’s uploads move in their list', async (t) => {
  const server = await startServer(t);
  await server.api('PUT', '/job-types/people', { executor: { kind: 'pull' } });
  const worker = new Worker(server, 'people');
  const page = await openPage(server, { path: '/imports' });
  await page.goto('/imports/new');
  await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  await page.locator('input[type="file"]').setInputFiles({ name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from('name\nann\nbob\n') });
  await page.locator('[data-upload="stored"]').waitFor();
  await page.selectOption('select[name=type]', 'people');
  await page.locator('#start').click();
  await page.waitForURL(/\/imports\/[0-9a-f-]{36}/);
  const list = await watching(server, '/imports', page.context());
  const held = await worker.claim(1);
  while (held.length < 2) held.push(...(await worker.claim(1)));
  await shows([list], () => worker.finish(held), text('#uploads .imp', 'Completed'));
});

test('forty tabs of one browser hold one stream', async (t) => {
  const { server, worker } = await story(t);
  const { id } = await job(server, 3);
  const first = await watching(server, '/dead');
  const context = first.context();
  const pages = [first];
  const paths = ['/dead', `/jobs/${id}`, '/jobs', '/types', '/imports', '/bulk'];
  for (let at = 1; at < 40; at += 1) {
    const page = await context.newPage();
    await page.goto(paths[at % paths.length]);
    pages.push(page);
  }
  for (const page of pages) {
    await page.locator('html[data-stream="live"], [data-live="live"]').first().waitFor({ state: 'attached' });
  }
  // The server sees the end of a replaced stream a moment after its successor has begun.
  const holdsOneStream = async () => {
    const count = async () => {
      const metrics = await (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } })).text();
      return Number(/^treeline_event_streams_open (\d+)/m.exec(metrics)[1]);
    };
    const until = Date.now() + 5_000;
    let open = await count();
    while (open !== 1 && Date.now() < until) open = await count();
    assert.equal(open, 1);
  };
  await holdsOneStream();
  const [held] = await worker.claim(1);
  await worker.call('/assignments/finish', { endings: [{ assignment_id: held.id, retryable: false, error: { message: 'no account' } }] });
  const dead = pages.filter((page) => new URL(page.url()).pathname === '/dead');
  await Promise.all(dead.map(text('#groups .issue-message', 'no account')));
  // The leader closes; another tab takes over.
  await first.close();
  await fail(server, worker, 'out of paper').catch(() => {});
  await Promise.all(dead.filter((page) => page !== first).map(text('#groups', 'out of paper')));
  await holdsOneStream();
});

test('a run of a schedule and its result appear on the page of the schedule and in the list', async (t) => {
  const { server, worker } = await story(t);
  const schedule = await made(await server.api('POST', '/schedules', { name: 'Nightly', cron: '0 2 * * *', job: { type: 'story', sealed: true, items: items(1) } }));
  const page = await watching(server, `/schedules/${schedule.id}`);
  const list = await watching(server, '/schedules', page.context());
  const run = async () => made(await server.api('POST', `/schedules/${schedule.id}/run`), 200);
  await shows([page, list], run, text('td', 'Waiting'));
  await shows([page, list], async () => {
    const [held] = await worker.claim(1);
    await worker.call('/assignments/finish', { endings: [{ assignment_id: held.id, result: {} }] });
  }, text('td', 'Completed'));
  await shows([page, list], async () => made(await server.api('POST', `/schedules/${schedule.id}/pause`), 200), text('.badge', 'Paused'));

  await page.setViewportSize({ width: 390, height: 800 });
  const [card, result] = await Promise.all(['.runs tbody tr', '.runs td[data-label="Result"]'].map((it) => page.locator(it).first().boundingBox()));
  assert.ok(card.x >= 0 && card.x + card.width <= 390, 'on a phone the runs do not scroll sideways');
  assert.ok(result.width > card.width * 0.8, `the result has a line of its own: ${result.width} of ${card.width} px`);
});
