// pg-boss by its batches: `insert` of arrays, `fetch` of 100, `complete` of 100 with a result. Finished jobs are kept.
//
// Told on standard input what to do next, one word a line: `add`, `drain`, and the end of it. A batch counts once
// PostgreSQL has committed its end.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import PgBoss from "pg-boss";

const { DATABASE_URL, PAYLOAD, RESULT } = process.env;
const items = Number(process.env.ITEMS);
const concurrency = Number(process.env.CONCURRENCY ?? 4);
const addedAtOnce = 5_000;
const batch = 100;

const boss = new PgBoss({ connectionString: DATABASE_URL, max: concurrency + 2, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue("pay");

const say = (word) => console.log(JSON.stringify(word));
const settings = `insert of ${addedAtOnce}, fetch and complete of ${batch}, ${concurrency} loops`;
const about = new URL("node_modules/pg-boss/package.json", import.meta.url);
say({ ready: true, version: JSON.parse(readFileSync(about)).version, settings });
for await (const word of createInterface({ input: process.stdin })) {
  const began = performance.now();
  if (word === "add") await add();
  if (word === "drain") await drain();
  say({ done: word, seconds: (performance.now() - began) / 1e3 });
}
process.exit(0);

async function add() {
  const data = JSON.parse(PAYLOAD);
  let left = items;
  const caller = async () => {
    while (left > 0) {
      const part = Math.min(left, addedAtOnce);
      left -= part;
      await boss.insert(Array.from({ length: part }, () => ({ name: "pay", data })));
    }
  };
  await Promise.all([caller(), caller()]);
}

async function drain() {
  const result = JSON.parse(RESULT);
  let done = 0;
  const loop = async () => {
    while (done < items) {
      const jobs = await boss.fetch("pay", { batchSize: batch });
      if (jobs.length === 0) continue;
      await boss.complete("pay", jobs.map((job) => job.id), result);
      done += jobs.length;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  if (done !== items) throw new Error(`${done} of ${items} were completed`);
}
