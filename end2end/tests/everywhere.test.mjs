// Invariants of every page: untrusted text is shown as text, axe finds nothing in any scheme or width, nothing moves
// while the page loads, nothing overflows, and every control is reachable by keyboard with visible focus.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { accessible, inScheme, openPage, screenshot, startServer } from '../harness.mjs';
import { Worker } from '../worker.mjs';

/** Untrusted text for every field that takes a name, a text or a key. */
const EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script></textarea>\'{{7*7}}‮gpj';
const LONG = 'W'.repeat(180);
const NOBODY = '00000000-0000-7000-8000-000000000000';

/** A call that must succeed. */
async function made(server, method, route, body, headers) {
  const answer = await server.api(method, route, body, headers);
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${route}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** A server on which every text is hostile, and the URLs of all its pages. */
async function haunted(t) {
  const receiver = createServer((_, answer) => answer.writeHead(410, { 'content-type': 'text/html' }).end(EVIL.replace('\u202e', '')));
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  t.after(() => receiver.close());
  const server = await startServer(t, { TREELINE_CALLBACK_ALLOW: '127.0.0.1' });
  await made(server, 'PUT', '/job-types/haunted', { executor: { kind: 'pull' }, steps: ['one', 'two'], max_failures: 1 });
  await made(server, 'PUT', '/job-types/haunted-fields', {
    executor: { kind: 'pull' },
    payload_schema: { properties: { [EVIL]: { title: EVIL, description: EVIL, default: EVIL, type: 'string' }, [LONG]: { enum: [EVIL, LONG] } } },
  });
  const idle = ['invoices', 'payments', 'reminders'].map((name) => `haunted-${name}`);
  for (const type of idle) await made(server, 'PUT', `/job-types/${type}`, { executor: { kind: 'pull' } });
  const file = [`${EVIL.replaceAll('"', '')},amount`, ...Array.from({ length: 12 }, (_, n) => `'${EVIL.replaceAll('"', '')} ${n}',${n}`), 'too,many,fields'];
  const query = new URLSearchParams({ filename: `${EVIL}.csv`, format: 'csv' });
  const upload = await made(server, 'POST', `/uploads?${query}`, file.join('\n'), { 'content-type': 'application/octet-stream' });
  const metadata = { [EVIL]: EVIL };
  const imported = await made(server, 'POST', '/jobs', {
    type: 'haunted', name: EVIL, metadata, initiated_by: EVIL, dedupe_key: EVIL, upload: { id: upload.id, format: 'csv' },
  });
  const item = (n) => ({ payload: { [EVIL]: EVIL, n }, dedupe_key: `${EVIL}${n}`, serialize_key: n > 4 ? EVIL : null, metadata });
  const tree = await made(server, 'POST', '/jobs', {
    type: 'haunted', key: 'tree', name: LONG, metadata, sealed: true, items: [0, 1, 2, 3, 4, 5, 6, 7].map(item),
    children: [{ type: 'haunted', key: 'below', name: EVIL, sealed: true, items: [{ payload: LONG }] }],
  });
  const url = `http://127.0.0.1:${receiver.address().port}/${encodeURIComponent(EVIL)}`;
  const cancelled = await made(server, 'POST', '/jobs', { type: 'haunted', name: EVIL, items: [{ payload: EVIL }], on_completed: { url } });
  await made(server, 'POST', `/jobs/${cancelled.id}/cancel`, { reason: EVIL });
  const removed = await made(server, 'POST', '/jobs', { type: 'haunted', sealed: true, items: [] });
  await made(server, 'DELETE', `/jobs/${removed.id}`);

  const worker = new Worker(server, 'haunted');
  const claim = (max) => worker.call('/assignments', { worker_id: EVIL, types: ['haunted', 'haunted-fields', ...idle], max, wait_seconds: 10 });
  const error = { message: EVIL, kind: EVIL.slice(0, 60), detail: { [EVIL]: EVIL } };
  const running = [];
  for (let seen = 0; seen < 18; ) {
    const { assignments } = await claim(50);
    seen += assignments.length;
    for (const [n, { id, item }] of assignments.entries()) {
      await worker.call(`/assignments/${id}/step`, { name: 'one', data: { [EVIL]: EVIL } });
      await worker.call(`/assignments/${id}/heartbeat`, { progress: { done: 1, total: 3, message: EVIL } });
      if (n % 4 === 0) await worker.call(`/assignments/${id}/failure`, { error, retryable: false });
      else if (n % 4 === 1) await worker.call(`/assignments/${id}/result`, { result: { [EVIL]: EVIL } });
      else running.push({ id, item: item.id });
    }
  }
  await made(server, 'POST', `/assignments/${running[0].id}/alert`, { message: EVIL });
  const dead = (await made(server, 'GET', `/dead-letters?root=${tree.id}`)).data;
  const done = (await made(server, 'GET', `/items?root=${tree.id}&state=succeeded`)).data;
  let callback;
  while (callback?.state !== 'failed') [callback] = (await made(server, 'GET', `/jobs/${cancelled.id}/deliveries`)).data;
  const filter = { root: tree.id, state: 'dead' };
  const preview = await made(server, 'POST', '/bulk-operations', { action: 'retry', target: 'items', filter, reason: EVIL, dry_run: true });
  const operation = await made(server, 'POST', '/bulk-operations', { action: 'retry', target: 'items', filter: { root: imported.id, state: 'dead' }, reason: EVIL });
  const user = await made(server, 'POST', '/users', { name: EVIL.slice(0, 100), email: 'evil@example.com', role: 'support', password: 'correct horse battery' });
  await made(server, 'POST', '/services', { name: 'evil' });
  await made(server, 'POST', '/tokens', { service: 'evil', name: EVIL.slice(0, 100), scopes: ['work'], types: ['haunted'] });
  const share = await made(server, 'POST', `/jobs/${imported.id}/share`);
  const schedule = await made(server, 'POST', '/schedules', { name: EVIL.slice(0, 200), cron: '0 2 * * *', job: { type: 'haunted', name: EVIL, sealed: true } });
  await made(server, 'POST', `/schedules/${schedule.id}/run`);
  await made(server, 'POST', '/views', { list: 'items', name: EVIL.slice(0, 100).trim(), q: `"${LONG}"`, shared: true });
  const channel = await made(server, 'POST', '/alert-channels', { name: EVIL.slice(0, 200), kind: 'webhook', url: 'https://hooks.example/', types: ['haunted'], paused: true });

  const list = await openPage(server, { path: '/workers' });
  const whoWorked = await list.locator('main a[href^="/workers/"]').first().getAttribute('href');

  const pages = {
    overview: '/',
    imports: '/imports',
    'imports-new': '/imports/new',
    import: `/imports/${imported.id}`,
    'import-correct': `/imports/${imported.id}/correct`,
    jobs: '/jobs',
    'jobs-none': '/jobs?q=name-of-nothing',
    'jobs-wrong': `/jobs?${new URLSearchParams({ q: EVIL })}`,
    'job-new': '/jobs/new?type=haunted-fields',
    'job-tree': `/jobs/${tree.id}`,
    'job-cancelled': `/jobs/${cancelled.id}`,
    callbacks: '/deliveries',
    callback: `/deliveries/${callback.id}`,
    dead: '/dead',
    items: `/items?q=root:${tree.id}`,
    'item-dead': `/items/${dead[0].id}`,
    'item-running': `/items/${running[0].item}`,
    'item-done': `/items/${done[0].id}`,
    bulk: '/bulk',
    'bulk-preview': `/bulk/${preview.id}`,
    'bulk-operation': `/bulk/${operation.id}`,
    schedules: '/schedules',
    'schedule-new': '/schedules/new',
    schedule: `/schedules/${schedule.id}`,
    'alert-channels': '/alert-channels',
    'alert-channel-new': '/alert-channels/new?kind=webhook',
    'alert-channel': `/alert-channels/${channel.id}`,
    workers: '/workers',
    worker: whoWorked,
    views: '/views',
    types: '/types',
    type: '/types/haunted',
    people: '/people',
    person: `/people/${user.id}`,
    services: '/services',
    account: '/account',
    audit: '/audit',
    shortcuts: '/shortcuts',
    search: '/search?q=haunted',
    'search-nothing': `/search?${new URLSearchParams({ q: EVIL })}`,
    share: new URL(share.url).pathname,
    'not-there': `/jobs/${NOBODY}`,
    removed: `/jobs/${removed.id}`,
  };
  return { server, pages };
}

/** Records layout shifts and executed injections. */
function watch() {
  globalThis.moved = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const whose = entry.sources.map(({ node, previousRect, currentRect }) => {
        const name = node?.id ? `#${node.id}` : (node?.className?.toString() || node?.nodeName);
        return `${name} ${Math.round(previousRect.y)}→${Math.round(currentRect.y)}, ${Math.round(previousRect.height)}→${Math.round(currentRect.height)} px high`;
      });
      globalThis.moved.push({ by: entry.value, whose });
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

/** Waits until the page has loaded everything and its live part is ready. */
async function settled(page) {
  await page.waitForLoadState('load');
  await page.evaluate(() => document.fonts.ready);
  if (await page.locator('leptos-island').count()) await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
  const live = page.locator('[data-live]').first();
  if (await live.count()) await page.waitForFunction(() => !['off', 'connecting'].includes(document.querySelector('[data-live]')?.dataset.live));
  await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next))));
}

test('every page shows what strangers wrote as text, and axe finds nothing in any scheme or width', async (t) => {
  const { server, pages } = await haunted(t);
  const page = await openPage(server);
  page.tolerate(/status of 4(00|04|10|22)/);
  page.on('dialog', async (dialog) => {
    page.problems.push(`executed: ${dialog.message()} at ${page.url()}`);
    await dialog.dismiss();
  });
  await page.addInitScript(watch);
  const failures = [];
  for (const [name, path] of Object.entries(pages)) {
    for (const width of [1280, 700, 412, 320]) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme: 'light' });
      const answer = await page.goto(path);
      assert.ok(answer.status() < 500, `${path}: ${answer.status()}`);
      await settled(page);
      assert.equal(await page.locator('h1').count(), 1, `${path} has one heading`);
      const moved = await page.evaluate(() => globalThis.moved);
      const shift = moved.reduce((sum, { by }) => sum + by, 0);
      if (shift > 0.02) failures.push(`${name} at ${width} px moved by ${shift.toFixed(3)}: ${moved.flatMap(({ whose }) => whose).join('; ')}`);
      // axe at the main widths; in between, only shifts and overflow.
      for (const colorScheme of width === 1280 || width === 320 ? ['light', 'dark'] : []) {
        await inScheme(page, colorScheme);
        await accessible(page, { onlyColors: colorScheme === 'dark' }).catch((error) => failures.push(`${name}, ${colorScheme}, ${width} px: ${error.message}`));
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) failures.push(`${name} at ${width} px is ${wide} px too wide`);
      assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script:not([nonce])').length), 0, `${name} has an element of a stranger`);
    }
  }
  assert.equal(failures.join('\n'), '');
});

test('every control of every page is reached by keys and seen to be, in forced colours and without motion too', async (t) => {
  const { server, pages } = await haunted(t);
  const page = await openPage(server, { viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  page.tolerate(/status of 4(00|04|10|22)/);
  const failures = [];
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(path);
    await settled(page);
    const still = await page.evaluate(() => document.getAnimations().filter((it) => it.effect.getComputedTiming().endTime > 50).length);
    if (still > 0) failures.push(`${name}: ${still} animations though less motion was asked for`);
    const unreached = await walk(page, name, failures);
    if (unreached.length) failures.push(`${name}: not reached by Tab: ${unreached.join(' · ')}`);
    await page.emulateMedia({ forcedColors: 'active' });
    await screenshot(page, `forced-${name}`);
    await page.emulateMedia({ forcedColors: 'none' });
    await page.setViewportSize({ width: 2560, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) failures.push(`${name} at 2560 px is ${wide} px too wide`);
    await screenshot(page, `wide-${name}`);
    await page.setViewportSize({ width: 1280, height: 900 });
  }
  assert.equal(failures.join('\n'), '');
});

/** Tabs once through the page; returns clickable elements that were never reached. */
async function walk(page, name, failures) {
  const all = await page.evaluate(() => {
    const visible = (it) => it.checkVisibility({ visibilityProperty: true }) && it.getClientRects().length > 0;
    const wanted = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')];
    // One radio of a group, one row of a grid: arrow keys reach the others. The hidden button that Enter presses is there twice.
    const found = wanted.filter((it) => visible(it) && !it.disabled && !it.closest('[role=treegrid], dialog, [inert], [aria-hidden=true]') && it.type !== 'radio');
    found.forEach((it, n) => (it.dataset.walked = n));
    return found.length;
  });
  await page.evaluate(() => (document.activeElement?.blur(), scrollTo(0, 0)));
  for (let n = 0; n < all * 2 + 40; n += 1) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate(() => {
      const it = document.activeElement;
      if (!it || it === document.body) return 'out';
      delete it.dataset.walked;
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(it);
      const seen = (outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1) || boxShadow !== 'none';
      return seen ? 'seen' : `${it.outerHTML.slice(0, 120)}`;
    });
    if (now === 'out') break;
    if (now !== 'seen') failures.push(`${name}: focus is not seen on ${now}`);
  }
  return page.evaluate(() => [...document.querySelectorAll('[data-walked]')].map((it) => it.outerHTML.slice(0, 120)));
}
