// What happens on the way of a stream: whatever breaks it, the page says so, comes back by itself and equals the database;
// many tabs, many events and long watching cost nothing that piles up.
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

/** Some items end, one in ten of them badly, and some stay in the worker's hands. */
async function work(worker, held, count) {
  const claimed = await worker.claim(count);
  const endings = held.map(({ id }, at) =>
    at % 10 === 9
      ? { assignment_id: id, error: { message: 'the way was bad' }, retryable: false }
      : { assignment_id: id, result: {} },
  );
  if (endings.length > 0) await worker.call('/assignments/finish', { endings });
  return claimed;
}

/** What the database knows: per job done, failed, in work, all. */
async function known(server, id) {
  const job = await (await server.api('GET', `/jobs/${id}`)).json();
  const line = ({ id, counts }) => [id, counts.succeeded, counts.dead, counts.running, Object.values(counts).reduce((sum, n) => sum + n, 0)].join(' ');
  return [line(job), ...job.children.map(line), `flights ${job.counts.running + job.children.reduce((sum, child) => sum + child.counts.running, 0)}`];
}

/** What the page shows of the same; or, asked with what is wanted, whether it shows that. */
function shown(wanted) {
  const rows = [...document.querySelectorAll('#tree tbody tr')].map((row) =>
    [row.id.replace('job-', ''), ...[...row.querySelectorAll('td.number')].map((cell) => cell.textContent.replaceAll(',', ''))].join(' '),
  );
  const all = [...rows, `flights ${document.querySelectorAll('#flights tbody tr').length}`];
  return wanted === null ? all : JSON.stringify(all) === JSON.stringify(wanted);
}

/** The page equals the database within five seconds. */
async function equals(page, server, id, story) {
  const wanted = await known(server, id);
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
  let kept = null;
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
        const [older, newer] = [kept ?? frame, frame];
        kept = frame;
        return `${newer}\n\n${older}\n\n`;
      };
    },
    'among things that nobody understands': () => {
      proxy.mangle = (frame) =>
        `event: change\ndata: {"jobs":[{"id":7}]}\n\nevent: later\ndata: x\n\nevent: snapshot\ndata:\n\n: a comment\n\n${frame}\n\n`;
    },
    'ten thousand times': () => {
      proxy.mangle = (frame) => {
        proxy.mangle = plain;
        return `${frame}\n\n`.repeat(10_000);
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
    // A stream that broke comes back; one that only carries rubbish stays.
    if (['doubled', 'out of order', 'among things that nobody understands', 'ten thousand times'].includes(story)) {
      held = await work(worker, held, 8);
    } else if (story === 'busy') {
      await whenLive(page, 'polling');
    } else {
      await proxy.until(() => proxy.passed > before && proxy.streams.size === 1);
    }
    await equals(page, server, id, story);
  }
  proxy.mangle = plain;
  // Busy is over when somebody tries again: the reader's own press is enough.
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume' }).click();
  await whenLive(page);
  while (held.length > 0) held = await work(worker, held, 100);
  await whenLive(page, 'finished');
  await equals(page, server, id, 'at the end');
  assert.equal(proxy.streams.size, 0, 'a page that has seen the end listens no more');
});
