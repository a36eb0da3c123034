// graphile-worker as its own pages on performance say it is fastest: a queue in memory for each process, and
// endings that share a statement. Finished jobs are deleted; no result is kept.
//
// Told on standard input what to do next, one word a line: `add`, `drain`, and the end of it. The clock of a drain
// stops when the table of jobs is empty, not when the last handler ran. Processes stay until the end, so that what
// their connections cost can still be read.

import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const { DATABASE_URL, PAYLOAD } = process.env;
const items = Number(process.env.ITEMS);
const processes = Number(process.env.PROCESSES ?? 3);
const concurrency = Number(process.env.CONCURRENCY ?? 24);
const addedAtOnce = 5_000;

function connections(max) {
  const pool = new pg.Pool({ connectionString: DATABASE_URL, max });
  pool.on("error", console.error);
  pool.on("connect", (client) => client.on("error", console.error));
  return pool;
}

/** One of the processes that work: begins when it is told, and counts. */
async function work() {
  const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
  const pool = connections(12);
  await Promise.all(Array.from({ length: 4 }, () => pool.query("select 1")));
  let done = 0;
  const report = setInterval(() => done > 0 && (process.send(done), (done = 0)), 5);
  process.on("message", async () => {
    await run({
      pgPool: pool,
      noHandleSignals: true,
      logger,
      taskList: { pay: () => void done++ },
      preset: {
        worker: {
          concurrentJobs: concurrency,
          localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
  });
  process.on("disconnect", () => (clearInterval(report), process.exit(0)));
  process.send("ready");
}

async function lead() {
  const pool = connections(3);
  const utils = await makeWorkerUtils({ pgPool: pool });
  await utils.migrate();
  const workers = Array.from({ length: processes }, () => fork(fileURLToPath(import.meta.url), ["work"]));
  await Promise.all(workers.map((worker) => new Promise((ready) => worker.once("message", ready))));

  const say = (word) => console.log(JSON.stringify(word));
  const settings = `addJobs of ${addedAtOnce}, ${processes} processes of ${concurrency}, localQueue 500, completeJobBatchDelay 0`;
  const about = new URL("node_modules/graphile-worker/package.json", import.meta.url);
  say({ ready: true, version: JSON.parse(readFileSync(about)).version, settings });
  for await (const word of createInterface({ input: process.stdin })) {
    const began = performance.now();
    if (word === "add") await add(utils);
    if (word === "drain") await drain(pool, workers);
    say({ done: word, seconds: (performance.now() - began) / 1e3 });
  }
  process.exit(0);
}

async function add(utils) {
  const payload = JSON.parse(PAYLOAD);
  let left = items;
  const caller = async () => {
    while (left > 0) {
      const part = Math.min(left, addedAtOnce);
      left -= part;
      await utils.addJobs(Array.from({ length: part }, () => ({ identifier: "pay", payload })));
    }
  };
  await Promise.all([caller(), caller()]);
}

async function drain(pool, workers) {
  let done = 0;
  await new Promise((all) => {
    for (const worker of workers) {
      worker.on("message", (n) => (done += n) >= items && all());
      worker.send("go");
    }
  });
  // Handlers have run; the last endings may be on their way.
  for (;;) {
    const { rows } = await pool.query("select exists (select from graphile_worker._private_jobs) as some");
    if (!rows[0].some) break;
  }
  if (done !== items) throw new Error(`${done} handlers ran for ${items} jobs`);
}

await (process.argv[2] === "work" ? work() : lead());
