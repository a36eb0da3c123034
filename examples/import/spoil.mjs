// Spoils rows of a well-formed CSV file, always the same ones in the same way, and says which:
//   node spoil.mjs FILE > spoiled.csv        the copy
//   node spoil.mjs FILE --list               what was done to which line, as JSON lines
// Works on bytes, because two of the ways are about bytes. Needs a file of at least 2,500 lines without quotes.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const NOT_UTF8 = [Buffer.from([0xff, 0xfe]), Buffer.from([0xc3, 0x28]), Buffer.from([0xe2, 0x82])];

/** Each way to spoil a row: what the failure is called, and what becomes of the row's bytes. */
const WAYS = {
  one_field_more: { code: 'too_many_fields', spoil: (row) => join(row, Buffer.from(',surplus')) },
  hundred_fields_more: { code: 'too_many_fields', spoil: (row) => join(row, Buffer.from(',x'.repeat(100))) },
  one_field_less: { code: 'too_few_fields', spoil: (row) => row.subarray(0, row.lastIndexOf(',')) },
  one_field_only: { code: 'too_few_fields', spoil: (row) => row.subarray(0, row.indexOf(',')) },
  not_utf8: { code: 'bad_encoding', spoil: (row, nth) => join(NOT_UTF8[nth % NOT_UTF8.length], row) },
  nul: { code: null, spoil: (row) => join(Buffer.from([0]), row) },
  huge_cell: { code: 'too_large', spoil: (row) => join(Buffer.from('x'.repeat(300_000)), row) },
  open_quote: { code: 'open_quote', spoil: (row) => join(Buffer.from('"'), row) },
};

/** [line, way]. Line 1 is the header. The open quote is the only quote, so it stays open to the end of the file. */
const PLAN = [
  [2, 'one_field_more'], [3, 'one_field_less'], [57, 'not_utf8'], [100, 'hundred_fields_more'], [101, 'one_field_only'],
  [233, 'one_field_more'], [377, 'one_field_less'], [511, 'not_utf8'], [512, 'one_field_more'], [640, 'nul'],
  [777, 'one_field_less'], [888, 'one_field_more'], [999, 'huge_cell'], [1024, 'one_field_only'], [1212, 'not_utf8'],
  [1313, 'one_field_more'], [1500, 'one_field_less'], [1501, 'one_field_less'], [1700, 'not_utf8'], [1888, 'one_field_more'],
  [2000, 'open_quote'], [2001, 'one_field_less'], [2222, 'not_utf8'], [2499, 'one_field_more'],
];

/**
 * @param {Buffer} csv a well-formed file
 * @returns {{ csv: Buffer, bad: { line: number, way: string, code: string | null }[] }} the copy, and its bad rows in
 *   order; `code` null: any code will do
 */
export function spoil(csv) {
  const plan = new Map(PLAN);
  const lines = [];
  const bad = [];
  let line = 0;
  for (let begin = 0; begin < csv.length; ) {
    line += 1;
    const newline = csv.indexOf('\n', begin);
    const end = newline < 0 ? csv.length : newline + 1;
    const ended = csv.subarray(begin, end);
    const way = plan.get(line);
    if (way) {
      const body = ended.subarray(0, /\r?\n?$/.exec(ended.toString('latin1')).index);
      lines.push(WAYS[way].spoil(body, bad.length), ended.subarray(body.length));
      bad.push({ line, way, code: WAYS[way].code });
    } else {
      lines.push(ended);
    }
    begin = end;
  }
  if (bad.length !== PLAN.length) throw new Error(`the file has only ${line} lines`);
  return { csv: Buffer.concat(lines), bad };
}

function join(...parts) {
  return Buffer.concat(parts);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [file, flag] = process.argv.slice(2);
  if (!file) {
    console.error('usage: node spoil.mjs FILE [--list]');
    process.exit(2);
  }
  const { csv, bad } = spoil(readFileSync(file));
  process.stdout.write(flag === '--list' ? bad.map((row) => JSON.stringify(row) + '\n').join('') : csv);
}
