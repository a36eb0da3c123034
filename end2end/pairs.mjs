// Each page beside its design, for docs/gallery/pairs: node pairs.mjs PAGES SITE DESIGN PICTURES [NAME…]
// (`cargo xtask gallery --pairs DESIGN`). DESIGN has the prototypes as pages/NAME.html with tokens.css and components.css;
// it is not part of this repository. Left is the design, right the product, both from the top and cut at the same height.
import { access, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { dress, launch, open, openDrawn, whole } from './pictures.mjs';

const [pages, site, design, pictures] = process.argv.slice(2, 6).map((folder) => path.resolve(folder));
const wanted = process.argv.slice(6);

/** Prototypes and the states of the gallery that they are compared with. */
const PAIRS = {
  index: 'overview', jobs: 'jobs', 'jobs-empty': 'jobs-empty', 'user-jobs': 'uploader-jobs', job: 'job-running', 'job-tree': 'job-tree',
  'job-items': 'items', 'job-graph': 'job-graph', 'job-timeline': 'job-timeline', 'job-results': 'job-results', 'job-activity': 'job-activity',
  item: 'item-dead', 'item-edit': 'item-retry', failures: 'dead', 'failures-empty': 'dead-empty', failure: 'dead-group-staff',
  operations: 'bulk', bulk: 'bulk-running', 'bulk-new': 'bulk-preview', imports: 'imports', 'imports-empty': 'imports-empty',
  'user-imports': 'uploader-imports', 'import-new': 'new', 'import-match': 'new-match', 'import-review': 'new-review',
  import: 'import-running', 'import-done': 'import-partial', 'user-import': 'uploader-import', 'import-fix': 'correct', share: 'share',
  types: 'types', type: 'type', schedules: 'schedules', schedule: 'schedule', workers: 'workers', webhooks: 'deliveries', people: 'people',
  access: 'services', audit: 'audit', account: 'account', 'sign-in': 'sign-in', 'sign-in-error': 'sign-in-refused', palette: 'search',
  menu: 'menu', shortcuts: 'shortcuts', 404: 'trouble-missing',
};
/** Theme, width of the window, scale of the picture, and most pixels of its height. */
const LOOKS = {
  light: ['light', 1440, 0.5, 800],
  dark: ['dark', 1440, 0.5, 800],
  phone: ['light', 390, 1, 2400],
};
const GAP = 24;

const drawn = await dress(pages, site);
await mkdir(pictures, { recursive: true });
const browser = await launch();

/** Files of the prototypes, which take the theme of the browser and name the fonts of the site differently. */
const FONTS = { '/fonts/inter.woff2': 'sans.woff2', '/fonts/jetbrains-mono.woff2': 'mono.woff2' };
const prototypes = (it) => (FONTS[it] ? path.join(site, 'fonts', FONTS[it]) : path.join(design, it));

async function openPrototype(name, theme, width) {
  await access(path.join(design, 'pages', `${name}.html`));
  const page = await open(browser, prototypes, `pages/${name}.html`, width, theme);
  await whole(page);
  return page;
}

async function shot(page) {
  const picture = await page.screenshot({ type: 'png', fullPage: true, animations: 'disabled' });
  await page.close();
  return `data:image/png;base64,${picture.toString('base64')}`;
}

async function pair(name, look) {
  const [theme, width, scale, most] = LOOKS[look];
  const left = await shot(await openPrototype(name, theme, width));
  const right = await shot(await openDrawn(browser, pages, drawn, PAIRS[name], theme, width));
  const wide = width * scale;
  const page = await browser.newPage({ viewport: { width: 2 * wide + GAP, height: 100 } });
  const style = `body{margin:0;display:flex;gap:${GAP}px;align-items:start;background:#8a8f8c;max-height:${most}px;overflow:hidden}img{width:${wide}px}`;
  await page.setContent(`<!doctype html><style>${style}</style><img src="${left}"><img src="${right}">`);
  await page.evaluate(() => Promise.all([...document.images].map((image) => image.decode())));
  const picture = path.join(pictures, `${name}-${look}.jpg`);
  await page.locator('body').screenshot({ path: picture, type: 'jpeg', quality: 72 });
  await page.close();
}

for (const name of wanted.length > 0 ? wanted : Object.keys(PAIRS)) {
  for (const look of Object.keys(LOOKS)) await pair(name, look);
}
await browser.close();
