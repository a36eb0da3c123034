// pg-boss by its batches: `insert` of arrays, `fetch` of many, `complete` of as many with a result. Finished jobs are kept.
//
// Reads what to do next from standard input, one word a line: `add`, `drain`, and the end of it. A batch counts once
// PostgreSQL has committed its completion. BATCH, LOOPS and PROCESSES override the setting that was fastest in a search.

import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { PgBoss } from "pg-boss";

const { DATABASE_URL, PAYLOAD, RESULT } = process.env;
const items = Number(process.env.ITEMS);
const batch = Number(process.env.BATCH ?? 1_000);
const loops = Number(process.env.LOOPS ?? 3);
const processes = Number(process.env.PROCESSES ?? 1);
const addedAtOnce = 5_000;
const queue = "pay";

const boss = new PgBoss({ connectionString: DATABASE_URL, max: loops + 2, supervise: false, schedule: false });
boss.on("error", console.error);

/** One of the processes that drain: completes batches until it is told to end. */
async function work() {
  await boss.start();
  const result = JSON.parse(RESULT);
  process.on("message", () => {
    const loop = async () => {
      for (;;) {
        const jobs = await boss.fetch(queue, { batchSize: batch });
        if (jobs.length === 0) return;
        await boss.complete(queue, jobs.map((job) => job.id), result);
        process.send(jobs.length);
      }
    };
    for (let n = 0; n < loops; n++) loop();
  });
  process.on("disconnect", () => process.exit(0));
  process.send("ready");
}

async function lead() {
  await boss.start();
  await boss.createQueue(queue, { partition: true });
  const workers = Array.from({ length: processes }, () => fork(fileURLToPath(import.meta.url), ["work"]));
  await Promise.all(workers.map((worker) => new Promise((ready) => worker.once("message", ready))));

  const say = (word) => console.log(JSON.stringify(word));
  const settings = `insert of ${addedAtOnce}, fetch and complete of ${batch}, ${processes} process of ${loops} loops, queue in a partition`;
  const about = new URL("node_modules/pg-boss/package.json", import.meta.url);
  say({ ready: true, version: JSON.parse(readFileSync(about)).version, settings });
  for await (const word of createInterface({ input: process.stdin })) {
    const began = performance.now();
    if (word === "add") await add();
    if (word === "drain") await drain(workers);
    say({ done: word, seconds: (performance.now() - began) / 1e3 });
  }
  process.exit(0);
}

async function add() {
  const data = JSON.parse(PAYLOAD);
  let left = items;
  const caller = async () => {
    while (left > 0) {
      const part = Math.min(left, addedAtOnce);
      left -= part;
      await boss.insert(queue, Array.from({ length: part }, () => ({ data })));
    }
  };
  await Promise.all([caller(), caller()]);
}

async function drain(workers) {
  let done = 0;
  await new Promise((all) => {
    for (const worker of workers) {
      worker.on("message", (completed) => (done += completed) >= items && all());
      worker.send("go");
    }
  });
  if (done !== items) throw new Error(`${done} of ${items} were completed`);
}

await (process.argv[2] === "work" ? work() : lead());
