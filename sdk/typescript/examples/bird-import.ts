// Import: a table with bad rows is uploaded; valid rows become results, and the bad ones a table of failures.
//
// Every row is an item. Rows that cannot be read or do not match the schema become failures that name their line. The
// table of failures is corrected and uploaded again; its rows keep their line numbers.
import { readFile } from 'node:fs/promises';

import type { Client, Job } from '@treeline/client';

import { collect, expect, prepare, run, same, say } from './scenario.js';

const BIRDS = 'bird-strikes';
/** A real table of 10,000 rows, in this repository; read as bytes, one character each. */
const SAMPLE = new URL('../../../examples/import/bird-strikes.csv', import.meta.url);
const ROWS = 10_000;
/** The column of the costs, from 0. */
const COST = 12;

/** Spoiled lines, the kind of the resulting failure, and the damage. Line 1 is the header. */
const SPOILED = new Map<number, [kind: string, spoil: (row: string) => string]>([
  [3, ['too_few_fields', (row) => row.slice(0, row.lastIndexOf(','))]],
  [57, ['bad_encoding', (row) => `\xff\xfe${row}`]],
  [100, ['too_many_fields', (row) => `${row},surplus`]],
  [512, ['invalid_row', (row) => row.split(',').with(COST, 'a lot').join(',')]],
  [2_000, ['open_quote', (row) => `"${row}`]],
]);

async function birdImport(client: Client): Promise<string> {
  const cost = { type: 'integer', minimum: 0 };
  const payload_schema = { properties: { 'Cost Other': cost, 'Cost Repair': cost, 'Cost Total $': cost } };
  await prepare(client, { name: BIRDS, payload_schema, executor: { kind: 'builtin', name: 'validate' } });
  const rows = (await readFile(SAMPLE, 'latin1')).trimEnd().split(/\r?\n/);
  const spoiled = rows.map((row, place) => SPOILED.get(place + 1)?.[1](row) ?? row);

  const done = await upload(client, 'bird-strikes.csv', spoiled);
  const good = ROWS - SPOILED.size;
  same([done.tree.outcome, done.counts.succeeded], ['partial', good], 'the good rows');
  const found = await collect(client.failures(done.id));
  same(found.map((line) => [line.row, line.error?.kind]), [...SPOILED].map(([line, [kind]]) => [line, kind]), 'each failure has its line and kind');
  expect(found.every((line) => line.error?.message.startsWith(`Line ${line.row}`)), 'each failure names its line');
  const results = (await collect(client.results(done.id))).map((line) => line.row ?? 0);
  same(results, results.toSorted((a, b) => a - b), 'the results are in order');
  expect(results.length === good && !results.some((line) => SPOILED.has(line)), 'the results are the good rows', results.length);

  const failures = await (await client.download(`/jobs/${done.id}/failures`, { format: 'csv' })).text();
  say(`${SPOILED.size} failures came home`);
  const again = await upload(client, 'mended.csv', mend(failures, rows));
  same(again.tree.outcome, 'succeeded', 'mended, they fit');
  same((await collect(client.results(again.id))).map((line) => line.row), [...SPOILED.keys()], 'they keep the lines they had');
  return `${good.toLocaleString('en')} rows went through, ${SPOILED.size} came home, were mended, and went through`;
}

/** Uploads a file, makes a job of its rows, and watches it to its end. */
async function upload(client: Client, name: string, rows: readonly string[]): Promise<Job> {
  const file = new Blob([Buffer.from(`${rows.join('\r\n')}\r\n`, 'latin1')]);
  let bytes = 0;
  let job = await client.importFile(file, name, { type: BIRDS, name }, (sent) => (bytes = sent));
  same(bytes, file.size, 'the whole file was sent');
  say(`${name} uploaded: ${client.url}/imports/${job.id}`);
  let message = '';
  for await (job of client.watch(job.id)) {
    same(job.tree.status === 'completed', job.percent === 100, '100% is the end and nothing else');
    if (job.message !== message) say(`${name}: ${(message = job.message)}`);
  }
  return job;
}

/** Records of a CSV text. */
function records(text: string): string[][] {
  const all: string[][] = [[]];
  for (const [, quoted, plain, end] of text.replace(/^\uFEFF/, '').matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    all.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === '') break;
    if (end !== ',') all.push([]);
  }
  return all.filter((record) => record.length > 1);
}

/** Corrects the table of failures like a person would: fixes the cells, and keeps the columns with the errors. */
function mend(failures: string, rows: readonly string[]): string[] {
  const [header = [], ...table] = records(failures);
  const places = ['_line', '_code', '_problem'].map((name) => header.indexOf(name));
  const quote = (cells: readonly string[]): string => cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',');
  const mended = table.map((row) => {
    const errors = places.map((place) => row[place] ?? '');
    return quote([...(rows[Number(errors[0]) - 1] ?? '').split(','), ...errors]);
  });
  return [quote(header), ...mended];
}

await run('import', birdImport);
