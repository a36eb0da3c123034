// Bundles a stylesheet and all it imports into one minified file, in the order of its @imports:
//   node bundle-css.mjs style/main.css out.css
import { writeFileSync } from 'node:fs';
import { browserslistToTargets, bundle } from 'lightningcss';

const [from, to] = process.argv.slice(2);
const { code, warnings } = bundle({
  filename: from,
  minify: true,
  // New enough for light-dark(), nesting and @layer to stay as they are written.
  targets: browserslistToTargets(['chrome 123', 'firefox 121', 'safari 17.5']),
});
for (const { message, loc } of warnings) {
  console.error(`${loc?.filename ?? from}:${loc?.line ?? 0}: ${message}`);
}
if (warnings.length > 0) process.exit(1);
writeFileSync(to, code);
