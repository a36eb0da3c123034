// Generates src/schema.ts, the types of the API, from its description.
//
//     node scripts/generate.mjs openapi.json [--check]
//
// The description is what `treeline-server openapi` prints. `--check` writes nothing and fails if the file differs.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const [description, flag] = process.argv.slice(2);
const document = JSON.parse(await readFile(description, 'utf8'));
// Bodies only: the calls are written by hand.
const schemas = { openapi: document.openapi, info: document.info, paths: {}, components: { schemas: document.components.schemas } };
const ast = await openapiTS(schemas, { rootTypes: true, rootTypesNoSchemaPrefix: true, emptyObjectsUnknown: true });
const head = '// Types of the API, generated from its description by scripts/generate.mjs.\n';
const text = head + astToString(ast);
const target = new URL('../src/schema.ts', import.meta.url);
const current = await readFile(target, 'utf8').catch(() => '');
if (current !== text) {
  if (flag === '--check') {
    console.error('src/schema.ts differs from what scripts/generate.mjs writes');
    process.exitCode = 1;
  } else {
    await writeFile(target, text);
  }
}
