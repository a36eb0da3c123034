// Bundles a stylesheet and all it imports into one minified file, in the order of its @imports:
//   node bundle-css.mjs style/main.css out.css chrome123,firefox121,safari17.5
import { writeFileSync } from 'node:fs';
import { browserslistToTargets, bundle } from 'lightningcss';

const [from, to, browsers] = process.argv.slice(2);
const { code, warnings } = bundle({
  filename: from,
  minify: true,
  targets: browserslistToTargets(browsers.split(',').map((it) => it.replace(/(?=\d)/, ' '))),
});
for (const { message, loc } of warnings) {
  console.error(`${loc?.filename ?? from}:${loc?.line ?? 0}: ${message}`);
}
if (warnings.length > 0) process.exit(1);
writeFileSync(to, code);
