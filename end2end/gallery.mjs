// Screenshots of the pages for docs/gallery: node gallery.mjs PAGES SITE PICTURES (`cargo xtask gallery`).
// `app/examples/gallery` renders the pages, so every state is available at any time, with the same data.
import assert from 'node:assert/strict';
import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [pages, site, pictures] = process.argv.slice(2).map((folder) => path.resolve(folder));

/** Pages in the gallery, light at 1,280 px; and other looks where they differ. */
const SHOWN = [
  ['Uploads', ['imports', 'imports-empty', 'new', 'new-match', 'new-review', 'new-check', 'new-refused', 'correct', 'import-running', 'import-partial', 'import-complete', 'import-hostile']],
  ['Jobs', ['jobs', 'job-tree', 'job-running', 'bulk-preview', 'bulk-running', 'item-dead', 'item-retry', 'item-waiting']],
  ['Failures and the rest', ['overview', 'dead', 'dead-group', 'dead-nothing', 'deliveries', 'delivery-refused', 'workers', 'types', 'schedules', 'schedule', 'audit', 'people', 'services', 'account', 'shortcuts', 'menu', 'sign-in', 'trouble-removed']],
];
const LOOKS = { light: [1280], dark: [1280], phone: [320] };
const OTHER = { dark: ['job-tree', 'import-running', 'dead', 'overview'], phone: ['imports', 'import-partial', 'job-tree', 'dead', 'new'] };

await cp(path.join(site, 'fonts'), path.join(pages, 'style', 'fonts'), { recursive: true });
await cp(path.join(site, 'treeline.css'), path.join(pages, 'style', 'main.css'));
const drawn = new Set(await readdir(pages));
await mkdir(pictures, { recursive: true });
// The pairs of design and product beside them stay.
for (const old of await readdir(pictures)) if (old.endsWith('.jpg')) await rm(path.join(pictures, old));
const browser = await chromium.launch({
  executablePath: process.env.TREELINE_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--allow-file-access-from-files'],
});

/** One screenshot; the data of the gallery is fixed, so it is always the same. */
async function take(name, look) {
  const file = `${name}-${look === 'dark' ? 'dark' : 'light'}.html`;
  assert.ok(drawn.has(file), `the gallery draws no ${file}`);
  const page = await browser.newPage({ viewport: { width: LOOKS[look][0], height: 800 }, timezoneId: 'Europe/Berlin', locale: 'en-GB' });
  await page.goto(pathToFileURL(path.join(pages, file)).href);
  const picture = `${name}-${look}.jpg`;
  await page.screenshot({ path: path.join(pictures, picture), type: 'jpeg', quality: 72, fullPage: true, animations: 'disabled' });
  await page.close();
  return picture;
}

const lines = ['# Every page, in its states', '', 'Drawn by `cargo xtask gallery` from made-up data; the pages are those of the product.',
  'The folder [pairs](pairs/README.md) has each page beside its design: light and dark at 1,440 px, and at 390 px.',
  'The folder [walk](walk/README.md) has the first steps of a newcomer.', ''];
for (const [title, names] of SHOWN) {
  lines.push(`## ${title}`, '');
  for (const name of names) {
    lines.push(`### ${name}`, '', `![${name}, light](${await take(name, 'light')})`, '');
    for (const look of ['dark', 'phone']) {
      if (OTHER[look].includes(name)) lines.push(`![${name}, ${look}](${await take(name, look)})`, '');
    }
  }
}
await writeFile(path.join(pictures, 'README.md'), `${lines.join('\n').trimEnd()}\n`);
await browser.close();
