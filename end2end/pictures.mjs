// Pages of `app/examples/gallery` in Chromium, for gallery.mjs and pairs.mjs.
import assert from 'node:assert/strict';
import { cp, readdir } from 'node:fs/promises';
import path from 'node:path';
import { chromium } from 'playwright-core';

/** The menu that is open on a page, by the name of its picture: these names are states of another page. */
const OPEN = {
  'saved-views': ['jobs', '#views-menu'],
  notices: ['jobs', '#notices-menu'],
  templates: ['new', '#templates'],
  'saved-view-edited': ['views', '#view-00000000-0000-0000-0000-000000000002 details'],
};

/** Gives the pages the style of a built site, and returns the names of their files. */
export async function dress(pages, site) {
  await cp(path.join(site, 'fonts'), path.join(pages, 'style', 'fonts'), { recursive: true });
  await cp(path.join(site, 'treeline.css'), path.join(pages, 'style', 'main.css'));
  for (const name of ['imports.css', 'documentation.css']) await cp(path.join(site, name), path.join(pages, 'style', name));
  return new Set(await readdir(pages));
}

export function launch() {
  return chromium.launch({
    executablePath: process.env.TREELINE_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  });
}

/** Opens an address; `files` answers with the file of a path, or with nothing. */
export async function open(browser, files, address, width, colorScheme = 'light') {
  const viewport = { width, height: 800 };
  const page = await browser.newPage({ viewport, colorScheme, timezoneId: 'Europe/Berlin', locale: 'en-GB' });
  await page.route('**/*', async (route) => {
    const file = files(new URL(route.request().url()).pathname);
    await (file ? route.fulfill({ path: file }).catch(() => route.abort()) : route.abort());
  });
  await page.goto(`http://gallery.test/${address}`);
  return page;
}

/** Makes the window as high as the page, so that what keeps to its edges is where it is on a high screen. */
export async function whole(page) {
  await page.evaluate(() => document.fonts.ready);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width: page.viewportSize().width, height: Math.min(Math.max(height, 800), 6000) });
}

/** Opens a page of the gallery in a theme. */
export async function openDrawn(browser, pages, drawn, name, theme, width) {
  const [drawing, menu] = OPEN[name] ?? [name];
  const file = `${drawing}-${theme}.html`;
  assert.ok(drawn.has(file), `the gallery draws no ${file}`);
  const page = await open(browser, (it) => path.join(pages, it), file, width);
  if (menu) await page.evaluate((menu) => document.querySelectorAll(menu).forEach((it) => (it.open = true)), menu);
  await whole(page);
  return page;
}
