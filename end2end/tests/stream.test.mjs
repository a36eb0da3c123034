// Faults of a stream: whatever breaks it, the page shows it, reconnects and equals the database; many tabs, many events
// and long watching accumulate nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPage, startServer, whenLive } from '../harness.mjs';
import { FaultyProxy, badGateway, busy, hangUp } from '../faulty.mjs';
import { Worker } from '../worker.mjs';

const BREAKS = /ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|502 \(Bad Gateway\)/;

/** A tree of two jobs with many items, a worker for it, and a page that watches it through a proxy. */
async function watched(t, items = 400) {
  const server = await startServer(t);
  const proxy = await FaultyProxy.start(t, server);
  await server.api('PUT', '/job-types/stream', { executor: { kind: 'pull' } });
  const some = (n) => Array.from({ length: n }, (_, at) => ({ payload: { at } }));
  const half = some(items / 2);
  const made = await server.api('POST', '/jobs', {
    type: 'stream', name: 'watched', sealed: true, items: half, children: [{ type: 'stream', key: 'below', sealed: true, items: half }],
  });
  assert.equal(made.status, 201, await made.clone().text());
  const { id } = await made.json();
  const page = await openPage(server, { baseURL: proxy.url });
  page.tolerate(BREAKS);
  return { server, proxy, page, id, worker: new Worker(server, 'stream') };
}

/** Finishes some items, one in ten as failed, and leaves some with the worker. */
async function work(worker, held, count) {
  const claimed = await (held.length > 0 ? worker.claimNow(count) : worker.claim(count));
  const endings = held.map(({ id }, at) =>
    at % 10 === 9
      ? { assignment_id: id, error: { message: 'the way was bad' }, retryable: false }
      : { assignment_id: id, result: {} },
  );
  if (endings.length > 0) await worker.call('/assignments/finish', { endings });
  return claimed;
}

/** State in the database: per job succeeded, failed, running, total; and the running items. */
async function known(server, id) {
  const job = await (await server.api('GET', `/jobs/${id}`)).json();
  const running = await (await server.api('GET', `/items?root=${id}&state=running&limit=100`)).json();
  const line = ({ id, counts }) => [id, counts.succeeded, counts.dead, counts.running, Object.values(counts).reduce((sum, n) => sum + n, 0)].join(' ');
  return [line(job), ...job.children.map(line), `active-items ${running.data.map((item) => item.id).sort().join(' ')}`];
}

/** The same state on the page; with an argument, whether the page shows that state. */
function shown(wanted) {
  const rows = [...document.querySelectorAll('#tree tbody tr')].map((row) =>
    [row.id.replace('job-', ''), ...[...row.querySelectorAll('td.num')].map((cell) => cell.textContent.replaceAll(',', ''))].join(' '),
  );
  const items = [...document.querySelectorAll('#active-items tbody a')].map((link) => link.pathname.replace('/items/', ''));
  const all = [...rows, `active-items ${items.sort().join(' ')}`];
  return wanted === null ? all : JSON.stringify(all) === JSON.stringify(wanted);
}

/** The page equals the database within five seconds. While it polls, it lists no items rather than earlier ones. */
async function equals(page, server, id, story, isPolling = false) {
  const wanted = await known(server, id);
  if (isPolling) wanted.splice(-1, 1, 'active-items ');
  await page.waitForFunction(shown, wanted, { timeout: 5_000 }).catch(async () => {
    assert.deepEqual(await page.evaluate(shown, null), wanted, story);
  });
}

test('whatever happens to the stream, the page comes back by itself and equals the database', async (t) => {
  const { server, proxy, page, id, worker } = await watched(t);
  await page.goto(`/jobs/${id}`);
  await whenLive(page);
  let held = await work(worker, [], 8);
  await equals(page, server, id, 'at first');

  const plain = (frame) => `${frame}\n\n`;
  let previous = null;
  const faults = {
    'dropped': () => proxy.cut(),
    'refused three times by what stands before the server': () => {
      proxy.refusals.push(badGateway, badGateway, badGateway);
      proxy.cut();
    },
    'hung up on twice': () => {
      proxy.refusals.push(hangUp, hangUp);
      proxy.cut();
    },
    'cut in the middle of an event': () => {
      proxy.mangle = (frame, stream) => {
        proxy.mangle = plain;
        stream.response.write(frame.slice(0, frame.length / 2), () => stream.cut());
        return '';
      };
    },
    'doubled': () => {
      proxy.mangle = (frame) => `${frame}\n\n${frame}\n\n`;
    },
    'out of order': () => {
      proxy.mangle = (frame) => {
        const [older, newer] = [previous ?? frame, frame];
        previous = frame;
        return `${newer}\n\n${older}\n\n`;
      };
    },
    'among things that nobody understands': () => {
      proxy.mangle = (frame) =>
        `event: change\ndata: {"jobs":[{"id":7}]}\n\nevent: later\ndata: x\n\nevent: snapshot\ndata:\n\n: a comment\n\n${frame}\n\n`;
    },
    'thousands of times at once': () => {
      proxy.mangle = (frame) => {
        proxy.mangle = plain;
        return `${frame}\n\n`.repeat(4_000);
      };
    },
    'busy': () => {
      proxy.refusals.push(busy);
      proxy.cut();
    },
  };
  for (const [story, begin] of Object.entries(faults)) {
    const before = proxy.passed;
    proxy.mangle = plain;
    begin();
    held = await work(worker, held, 8);
    // A broken stream reconnects; one that only carries invalid events stays open.
    if (['doubled', 'out of order', 'among things that nobody understands', 'thousands of times at once'].includes(story)) {
      held = await work(worker, held, 8);
    } else if (story === 'busy') {
      await whenLive(page, 'polling');
    } else {
      await proxy.until(() => proxy.passed > before && proxy.streams.size === 1);
    }
    await equals(page, server, id, story, story === 'busy');
  }
  proxy.mangle = plain;
  // Polling ends when the reader presses resume.
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume' }).click();
  await whenLive(page);
  // The last running items end unseen, and the rest waits.
  proxy.refusals.push(badGateway, badGateway);
  proxy.cut();
  await worker.finish(held);
  held = [];
  await equals(page, server, id, 'with nothing in progress');
  held = await work(worker, held, 100);
  while (held.length > 0) held = await work(worker, held, 100);
  await whenLive(page, 'finished');
  await equals(page, server, id, 'at the end');
  // Completion need not be final: a retried tree is live again, and completes again.
  await proxy.until(() => proxy.streams.size === 1);
  const { data } = await (await server.api('GET', `/items?root=${id}&state=dead&limit=1`)).json();
  assert.equal((await server.api('POST', `/items/${data[0].id}/retry`, { reason: 'again' })).status, 200);
  await whenLive(page);
  await equals(page, server, id, 'given back');
  await worker.finish(await worker.claim(100));
  await whenLive(page, 'finished');
  await equals(page, server, id, 'at the new end');
});

test('a stream that falls silent is opened anew, and one that stays away makes the numbers stale', async (t) => {
  const { server, proxy, page, id, worker } = await watched(t);
  await page.clock.install();
  await page.goto(`/jobs/${id}`);
  await whenLive(page);
  // Nothing is closed and nothing arrives, as when a phone changes its network.
  for (const stream of proxy.streams) stream.held = true;
  let held = await work(worker, [], 5);
  const before = proxy.passed;
  await page.clock.fastForward('01:01');
  await proxy.until(() => proxy.passed > before);
  await equals(page, server, id, 'after silence');

  proxy.refusals.push(...Array.from({ length: 100 }, () => badGateway));
  proxy.cut();
  await proxy.until(() => proxy.refusals.length < 100);
  await page.clock.fastForward(4_000);
  await whenLive(page, 'reconnecting');
  await page.clock.fastForward(16_000);
  await whenLive(page, 'stale');
  await page.getByText('These numbers may be out of date').waitFor();
  held = await work(worker, held, 5);
  proxy.refusals.length = 0;
  await page.clock.fastForward('00:31');
  await whenLive(page);
  await equals(page, server, id, 'after being away');
  assert.equal(await page.getByText('These numbers may be out of date').isVisible(), false);
});

test('ten pages one after the other keep one stream, and going back is live again', async (t) => {
  const { proxy, page, id } = await watched(t);
  await page.addInitScript(() => addEventListener('pageshow', (event) => (document.documentElement.dataset.persisted = event.persisted)));
  for (let visit = 0; visit < 10; visit += 1) {
    await page.goto(visit % 2 === 0 ? `/jobs/${id}` : `/imports/${id}`);
    await whenLive(page);
    await proxy.until(() => proxy.streams.size === 1);
  }
  // Private pages are `no-store`: the browser keeps none of them, and "Back" reloads the page.
  await page.goBack();
  assert.equal(new URL(page.url()).pathname, `/jobs/${id}`);
  await page.locator('[data-persisted="false"]').waitFor({ state: 'attached' });
  await whenLive(page);
  await proxy.until(() => proxy.streams.size === 1);
});

test('of many tabs only those that are looked at keep a stream, so that the seventh works', async (t) => {
  const { server, proxy, page, id, worker } = await watched(t);
  const tabs = [page];
  while (tabs.length < 7) tabs.push(await page.context().newPage());
  const turn = (tab, state) =>
    tab.evaluate((state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  for (const [at, tab] of tabs.entries()) {
    await tab.clock.install();
    await tab.goto(`/jobs/${id}`);
    await whenLive(tab);
    assert.equal(proxy.streams.size, 1, `tab ${at + 1}`);
    if (at === 6) break;
    await turn(tab, 'hidden');
    await tab.clock.fastForward(6_000);
    await proxy.until(() => proxy.streams.size === 0);
  }
  await work(worker, [], 7);
  await equals(tabs[6], server, id, 'the seventh tab');
  await turn(tabs[0], 'visible');
  await equals(tabs[0], server, id, 'the first tab, looked at again');
});

test('a reader who hears the page is told milestones only', async (t) => {
  const { page, id, worker } = await watched(t, 100);
  await page.goto(`/jobs/${id}`);
  await whenLive(page);
  await page.evaluate(() => {
    const region = document.querySelector('main .vh[role=status]');
    window.said = [];
    new MutationObserver(() => region.textContent && window.said.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  });
  let held = await work(worker, [], 10);
  while (held.length > 0) held = await work(worker, held, 10);
  await whenLive(page, 'finished');
  await page.waitForFunction(() => window.said.some((text) => /attention/.test(text)));
  const said = await page.evaluate(() => window.said);
  assert.ok(said.length <= 6, said.join(' | '));
});

test('an hour of events, reconnects and opened lines leaves nothing behind', async (t) => {
  const { server, proxy, page, id, worker } = await watched(t);
  await page.addInitScript(() => {
    const { instantiate, instantiateStreaming } = WebAssembly;
    const keep = (made) => ((window.wasm = (made.instance ?? made).exports.memory), made);
    WebAssembly.instantiate = async (...of) => keep(await instantiate(...of));
    WebAssembly.instantiateStreaming = async (...of) => keep(await instantiateStreaming(...of));
  });
  await page.goto(`/jobs/${id}`);
  await whenLive(page);
  let held = [];
  /** An hour at four events a second, with typical interaction. */
  const live = async (events) => {
    const requests = proxy.requests;
    const burst = 500;
    for (let done = 0; done < events; done += burst) {
      proxy.mangle = (frame) => {
        proxy.mangle = (frame) => `${frame}\n\n`;
        return `${frame}\n\n`.repeat(burst);
      };
      held = await work(worker, held, 4);
      await equals(page, server, id, 'while it lives');
    }
    const expander = page.locator('#tree .expander').first();
    for (let press = 0; press < 100; press += 1) await expander.click();
    for (let press = 0; press < 25; press += 1) {
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.getByRole('button', { name: 'Resume' }).click();
      await whenLive(page);
    }
    assert.ok(proxy.requests >= requests + 25);
  };
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable');
  const weighOnce = async () => {
    await devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await devtools.send('Performance.getMetrics');
    const of = (name) => metrics.find((metric) => metric.name === name).value;
    return { nodes: of('Nodes'), listeners: of('JSEventListeners'), heap: of('JSHeapUsedSize'), wasm: await page.evaluate(() => window.wasm.buffer.byteLength) };
  };
  /** Minimum of five samples: a fetched document may survive one collection, a leak survives all. */
  const weigh = async () => {
    const least = await weighOnce();
    for (let look = 1; look < 5; look += 1) {
      for (const [name, value] of Object.entries(await weighOnce())) least[name] = Math.min(least[name], value);
    }
    return least;
  };
  // Until the allocator has reached its size.
  await live(6_000);
  const before = await weigh();
  await live(14_400);
  const after = await weigh();
  // WASM memory never shrinks and grows in pages of 64 KiB: less than 75 bytes per event is rounding.
  assert.ok(after.wasm <= before.wasm + (1 << 20), `the module: ${before.wasm} bytes, then ${after.wasm}`);
  assert.ok(after.listeners <= before.listeners + 5, `listeners: ${before.listeners}, then ${after.listeners}`);
  assert.ok(after.nodes <= before.nodes + 200, `nodes: ${before.nodes}, then ${after.nodes}`);
  assert.ok(after.heap <= before.heap * 1.2 + 500_000, `heap: ${before.heap}, then ${after.heap}`);
});

test('a pause is of one tab, and what was done is told once', async (t) => {
  const { page, id } = await watched(t);
  await page.goto(`/jobs/${id}`);
  await whenLive(page);
  await page.getByRole('button', { name: 'Pause' }).click();
  await whenLive(page, 'paused');
  const second = await page.context().newPage();
  await second.goto(`/jobs/${id}`);
  await whenLive(second);
  await second.close();
  await page.reload();
  await whenLive(page, 'paused');

  await page.getByText('Keep forever…').click();
  await page.getByRole('textbox', { name: 'Reason' }).fill('Evidence');
  // The server is away for a moment: the error page sends again what was typed.
  page.tolerate(/status of 503/);
  let isAway = true;
  await page.route('**/pin', async (route) => {
    if (!isAway) return route.continue();
    isAway = false;
    const form = '<form method="post" id="send-again" hidden><button>Send again</button></form>';
    const body = (await (await page.request.get('/shortcuts')).text()).replace('<h1', `${form}<h1`);
    return route.fulfill({ status: 503, contentType: 'text/html', body });
  });
  await page.getByRole('button', { name: 'Keep forever', exact: true }).click();
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByText('Kept forever, until someone deletes it.').waitFor();
  // The text is there before the script that takes it out of the address.
  await page.waitForURL((url) => url.search === '');
  await page.reload();
  await page.getByText('Delete automatically again…').waitFor();
  assert.equal(await page.getByText('Kept forever, until someone deletes it.').count(), 0);
});

test('a page whose live part does not load says so and is whole without it', async (t) => {
  const { page, id } = await watched(t);
  page.tolerate(/ERR_FAILED|WebAssembly|wasm/);
  for (const spoil of [(route) => route.abort(), (route) => route.fulfill({ contentType: 'application/wasm', body: 'no module' })]) {
    await page.route('**/*.wasm', spoil);
    await page.goto(`/jobs/${id}`);
    await page.locator('html[data-islands="failed"]').waitFor({ state: 'attached' });
    await page.getByText('Not live').waitFor();
    await page.getByRole('link', { name: 'Refresh' }).first().click();
    await page.getByText('Not live').waitFor();
    await page.unroute('**/*.wasm');
  }
});
