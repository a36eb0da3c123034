// Screenshots of the pages for docs/gallery: node gallery.mjs PAGES SITE PICTURES (`cargo xtask gallery`).
// `app/examples/gallery` renders the pages, so every state is available at any time, with the same data.
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { dress, launch, openDrawn } from './pictures.mjs';

const [pages, site, pictures] = process.argv.slice(2).map((folder) => path.resolve(folder));

/** Pages in the gallery, light at 1,280 px; and other looks where they differ. */
const SHOWN = [
  ['Uploads', [
    'imports', 'imports-empty', 'new', 'templates', 'uploader-files', 'new-match', 'new-review', 'new-check', 'new-refused', 'correct',
    'import-running', 'import-partial', 'import-complete', 'import-hostile',
  ]],
  ['In German, for an uploader', ['uploader-imports-german', 'uploader-match-german', 'uploader-review-german', 'uploader-import-german', 'uploader-done-german']],
  ['Jobs', [
    'jobs', 'saved-views', 'views', 'start-job', 'start-job-json', 'job-tree', 'job-running', 'job-graph', 'job-timeline', 'job-results',
    'job-activity', 'job-approval', 'item-waiting-for-event', 'item-dead', 'item-retry', 'item-waiting', 'item-log', 'bulk-preview', 'bulk-running',
  ]],
  ['Failures', ['dead', 'dead-resolved', 'dead-group', 'dead-group-staff', 'dead-nothing']],
  ['What runs, and how', [
    'overview', 'workers', 'worker', 'types', 'type', 'type-new', 'schedules', 'schedule', 'deliveries', 'delivery-refused', 'alert-channels',
    'alert-channel',
  ]],
  ['API and documentation', ['api-reference', 'api-operation', 'api-operation-sent', 'api-operation-confirm', 'documentation']],
  ['People and the rest', [
    'audit', 'people', 'services', 'account', 'account-factors', 'notices', 'search', 'shortcuts', 'menu', 'sign-in', 'sign-in-second',
    'trouble-removed',
  ]],
];
const LOOKS = { light: 1280, dark: 1280, phone: 320 };
const OTHER = {
  dark: ['job-tree', 'import-running', 'dead', 'dead-group-staff', 'overview', 'api-operation-sent', 'type-new'],
  phone: ['imports', 'import-partial', 'job-tree', 'dead', 'new', 'uploader-review-german', 'start-job', 'api-operation', 'notices', 'type-new'],
};

const drawn = await dress(pages, site);
await mkdir(pictures, { recursive: true });
// The pairs of design and product beside them stay.
for (const old of await readdir(pictures)) if (old.endsWith('.jpg')) await rm(path.join(pictures, old));
const browser = await launch();

/** One screenshot; the data of the gallery is fixed, so it is always the same. */
async function take(name, look) {
  const page = await openDrawn(browser, pages, drawn, name, look === 'dark' ? 'dark' : 'light', LOOKS[look]);
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
// The picture of the project's README.
const front = await openDrawn(browser, pages, drawn, 'import-ten-thousand', 'light', LOOKS.light);
await front.screenshot({ path: path.join(pictures, '..', 'screenshot.png'), fullPage: true, animations: 'disabled' });
await front.close();
await browser.close();
