// Notices: a person watches a job, and the bell of another page says live that it finished, on desktop and phone; the
// browser shows a notification only if the person turned it on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer } from '../harness.mjs';
import { Worker } from '../worker.mjs';

const SIZES = [
  ['desktop', { width: 1280, height: 800 }],
  ['phone', { width: 320, height: 640 }],
];

/** Records notifications instead of showing them. */
const fakeNotifications = (page) =>
  page.addInitScript(() => {
    globalThis.shown = [];
    globalThis.Notification = class {
      static permission = 'granted';
      static requestPermission = async () => 'granted';
      constructor(title, { body, tag }) {
        globalThis.shown.push({ title, body, tag });
      }
    };
  });

for (const [name, viewport] of SIZES) {
  test(`the bell says live that a watched job finished (${name})`, async (t) => {
    const server = await startServer(t);
    await server.api('PUT', '/job-types/story', { executor: { kind: 'pull' } });
    const make = async (title) => {
      const made = await server.api('POST', '/jobs', { type: 'story', name: title, sealed: true, items: [{ payload: {} }] });
      assert.equal(made.status, 201);
      return (await made.json()).id;
    };
    const worker = new Worker(server, 'story');
    const page = await openPage(server, { viewport });
    await fakeNotifications(page);
    for (const title of ['March', 'April']) {
      await page.goto(`/jobs/${await make(title)}`);
      await page.getByRole('button', { name: 'Watch', exact: true }).click();
      await page.getByRole('button', { name: 'Stop watching' }).waitFor();
    }

    // In the list, without a notification of the browser.
    await page.goto('/shortcuts');
    await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
    await page.evaluate(() => (globalThis.first = true));
    await worker.finish(await worker.claim(1));
    const bell = page.locator('#notices-menu');
    await bell.locator('summary').getByText('Notices: 1 unread').waitFor({ state: 'attached' });
    await bell.locator('summary').click();
    await bell.getByText('Completed').waitFor();
    assert.deepEqual(await page.evaluate(() => [globalThis.first, globalThis.shown]), [true, []]);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, 'no sideways scrolling');
    await accessible(page);
    await screenshot(page, `notices-${name}`);
    await bell.getByRole('button', { name: 'Mark all as read' }).click();
    await page.locator('#notices-menu > summary').getByText('Notices', { exact: true }).waitFor({ state: 'attached' });
    assert.equal(await page.evaluate(() => globalThis.first), true, 'the page stays with what is typed on it');

    // Turned on, each notice is one notification.
    await page.goto('/account');
    await accessible(page);
    await page.getByLabel('As a notification of this browser').check();
    await page.locator('#notice-form').getByRole('button', { name: 'Save' }).click();
    await page.getByText('Your notice settings are saved.').waitFor();
    await page.locator('html[data-stream="live"]').waitFor({ state: 'attached' });
    await worker.finish(await worker.claim(1));
    await page.waitForFunction(() => globalThis.shown.length > 0);
    const [{ title, tag }, ...others] = await page.evaluate(() => globalThis.shown);
    assert.equal(title, 'April');
    assert.match(tag, /^[0-9a-f-]{36}$/);
    assert.deepEqual(others, []);

    // The page of the job reads its notice.
    await bell.locator('summary').click();
    await bell.getByRole('link', { name: 'April' }).click();
    await page.getByRole('heading', { name: 'April' }).waitFor();
    await page.locator('#notices-menu > summary').getByText('Notices', { exact: true }).waitFor({ state: 'attached' });
  });
}
