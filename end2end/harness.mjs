// Base of every browser test: the real server program with its own database, and a page that records every error.
// `cargo xtask e2e` sets the environment.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const here = path.dirname(fileURLToPath(import.meta.url));
const run = promisify(execFile);
const START_LIMIT = 30_000;

function needed(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run the browser tests with: cargo xtask e2e`);
  return value;
}

/** Address that a server keeps while it is down: its port is below the range for outgoing connections. */
async function freeAddress() {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = randomInt(15_000, 32_000);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch {
      continue;
    }
    probe.close();
    await once(probe, 'close');
    return `127.0.0.1:${port}`;
  }
  throw new Error('no port is free');
}

/** Runs one statement on the tests' PostgreSQL; rows as arrays of text. */
async function psql(url, statement) {
  const { stdout } = await run(needed('TREELINE_PSQL'), ['-XqAt', '-F', '\t', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', statement]);
  return stdout.split('\n').filter(Boolean).map((line) => line.split('\t'));
}

/**
 * Starts a server for a test, on a free port and with a database without rows; both go at the end of the test.
 * @param {import('node:test').TestContext} t
 * @param {Record<string, string> | ((address: string) => Record<string, string>)} environment variables on top of the
 *   defaults, which may depend on the address that the server will have
 */
export async function startServer(t, environment = {}) {
  const admin = needed('TREELINE_TEST_POSTGRES');
  const name = `e2e_${randomBytes(6).toString('hex')}`;
  await psql(admin, `create database ${name} template ${needed('TREELINE_TEST_TEMPLATE')}`);
  const database = new URL(admin);
  database.pathname = `/${name}`;
  const dataDir = await mkdtemp(path.join(tmpdir(), 'treeline-e2e-'));
  await mkdir(path.join(here, 'logs'), { recursive: true });
  const log = createWriteStream(path.join(here, 'logs', `${t.name.replace(/\W+/g, '-')}.log`));

  const named = typeof environment === 'function' ? environment : () => environment;
  const server = new Server(database.href, (address) => ({ TREELINE_DATA_DIR: dataDir, ...named(address) }), log);
  t.after(async () => {
    // Pages first: a server that stops under an open page causes an error in that page.
    const pages = await Promise.allSettled(server.pages.map((close) => close()));
    await server.stop();
    log.end();
    await rm(dataDir, { recursive: true, force: true });
    await psql(admin, `drop database if exists ${name} with (force)`);
    for (const { reason } of pages) if (reason) throw reason;
  });
  await server.start();
  return server;
}

class Server {
  /** Token of the bootstrap service: an admin of the API. */
  token = randomBytes(24).toString('hex');
  /** URL of the server; the same after a restart. */
  url = null;
  /** Promise of the one-time link, which is printed while there is no admin. */
  signInLink;
  /** Functions that close the opened pages; closing a page checks it. */
  pages = [];
  #process = null;
  #session = null;
  #linkPrinted;

  constructor(database, environment, log) {
    this.database = database;
    this.environment = environment;
    this.log = log;
    this.signInLink = new Promise((resolve) => (this.#linkPrinted = resolve));
  }

  /** Starts the program and waits until it listens. */
  async start() {
    const address = this.url ? new URL(this.url).host : await freeAddress();
    const child = spawn(needed('TREELINE_SERVER_BIN'), [], {
      env: {
        ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TREELINE_'))),
        DATABASE_URL: this.database,
        TREELINE_LISTEN: address,
        TREELINE_BOOTSTRAP_TOKEN: this.token,
        ...(typeof this.environment === 'function' ? this.environment(address) : this.environment),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    let output = '';
    child.stderr.on('data', (data) => {
      output = (output + data).slice(-4000);
      this.log.write(data);
    });
    const listening = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => reject(new Error(`the server ended (${signal ?? code}):\n${output}`)));
      setTimeout(() => reject(new Error(`the server does not listen:\n${output}`)), START_LIMIT).unref();
      createInterface({ input: child.stdout }).on('line', (line) => {
        this.log.write(`${line}\n`);
        const link = /Sign in: (\S+)/.exec(line)?.[1];
        if (link) this.#linkPrinted(link);
        const url = /listening on (\S+)/.exec(line)?.[1];
        if (url) {
          this.url = url;
          resolve();
        }
      });
    });
    await listening;
  }

  /** kill -9, without a graceful shutdown. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** SIGTERM: the server drains and stops. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** True while the process runs. */
  get running() {
    return this.#process !== null && this.#process.exitCode === null && this.#process.signalCode === null;
  }

  async #end(signal) {
    if (!this.running) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill(signal);
    await ended;
  }

  /** Calls /api/v1 with the bootstrap token. Objects are sent as JSON. */
  async api(method, route, body, headers = {}) {
    const json = body !== undefined && typeof body === 'object' && !(body instanceof Uint8Array) && !(body instanceof FormData);
    return fetch(`${this.url}/api/v1${route}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, ...(json ? { 'content-type': 'application/json' } : {}), ...headers },
      body: json ? JSON.stringify(body) : body,
    });
  }

  /** Runs one statement on this server's database. */
  query(statement) {
    return psql(this.database, statement);
  }

  /** Storage state of a browser that is signed in. smoke.test.mjs opens the link itself. */
  async session() {
    this.#session ??= (async () => {
      const [base, link] = (await this.signInLink).split('/sign-in/');
      const answer = await fetch(`${base}/api/v1/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ link }),
      });
      assert.equal(answer.status, 204, await answer.text());
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(answer.headers.getSetCookie()[0]);
      const place = { domain: new URL(base).hostname, path: '/', expires: -1 };
      return { cookies: [{ name, value, ...place, httpOnly: true, secure: false, sameSite: 'Lax' }], origins: [] };
    })();
    return this.#session;
  }
}

let opened = null;

/** Browser shared by the tests of a file. */
export function browser() {
  opened ??= chromium.launch({
    executablePath: process.env.TREELINE_CHROMIUM ?? '/usr/bin/chromium',
    // As in real use: a page that is left stays in the back/forward cache for a while.
    ignoreDefaultArgs: ['--disable-back-forward-cache'],
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  return opened;
}

after(async () => {
  if (opened) await (await opened).close();
});

/**
 * Opens a page that fails the test of its server at the end if anything went wrong in it: console errors (violations of the
 * content security policy are among them), hydration warnings, uncaught errors, failed requests.
 * `page.tolerate(/pattern/)` names what a test brings about on purpose.
 * @param {object} options `signedIn` (default true), `path`, and anything of a Playwright context:
 *   `viewport`, `colorScheme`, `javaScriptEnabled`, `locale`, `timezoneId` …
 */
export async function openPage(server, { signedIn = true, path: route, ...options } = {}) {
  const context = await (await browser()).newContext({
    baseURL: server.url,
    viewport: { width: 1280, height: 800 },
    ...(signedIn ? { storageState: await server.session() } : {}),
    ...options,
  });
  const page = await context.newPage();
  const problems = [];
  const tolerated = [];
  const note = (text) => {
    if (!tolerated.some((pattern) => pattern.test(text))) problems.push(text);
  };
  page.on('console', (message) => {
    const text = message.text();
    const { url = '' } = message.location();
    if (message.type() === 'error' || /hydrat|panicked|unreachable|Content.Security/i.test(text)) {
      note(`console ${message.type()}: ${text} ${url}`);
    }
  });
  page.on('pageerror', (error) => note(`page error: ${error.stack ?? error}`));
  page.on('crash', () => note('the page crashed'));
  page.on('requestfailed', (request) => {
    // Leaving a page aborts its open stream, which is no failure.
    const reason = request.failure()?.errorText ?? '';
    if (reason !== 'net::ERR_ABORTED') note(`request failed: ${request.method()} ${request.url()} ${reason}`);
  });
  page.tolerate = (pattern) => tolerated.push(pattern);
  page.problems = problems;
  server.pages.push(async () => {
    await context.close();
    assert.deepEqual(problems, [], 'something went wrong in the page');
  });
  if (route) await page.goto(route);
  return page;
}

/** Signs out by the account's menu. */
export async function signOut(page) {
  await page.locator('#account-menu > summary').click();
  await page.locator('#account-menu').getByRole('button', { name: 'Sign out' }).click();
}

/** Refreshes the sections of the page, and waits until they are as the server has them. */
export async function refreshed(page) {
  await page.evaluate(() => new Promise((done) => {
    document.addEventListener('treeline:refreshed', () => done(), { once: true });
    document.dispatchEvent(new CustomEvent('treeline:refresh'));
  }));
}

/** Waits until the live part of the page has a state: `live`, `finished`, `stale` … */
export async function whenLive(page, state = 'live') {
  await page.locator(`[data-live="${state}"]`).first().waitFor({ state: 'attached' });
}

/** Screenshot of the whole page in end2end/screenshots/, for review; only `cargo xtask e2e` takes them. */
export async function screenshot(page, name) {
  if (!process.env.TREELINE_SCREENSHOTS) return;
  await page.screenshot({ path: path.join(here, 'screenshots', `${name}.png`), fullPage: true, animations: 'disabled' });
}

const axe = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Fails if an icon has no shape. */
export async function iconsAreThere(page) {
  const missing = await page.locator('use').evaluateAll((all) => all.map((it) => it.getAttribute('href')).filter((href) => !document.getElementById(href.slice(1))));
  assert.deepEqual(missing, [], `icons without a shape at ${page.url()}`);
}

const WCAG = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
/** Rules whose result depends on colors. */
const OF_COLORS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };

/**
 * Fails if axe finds a violation of WCAG 2.2 AA, or an icon has no shape.
 * @param {object} options `onlyColors`: the page was checked in another color scheme just before
 */
export async function accessible(page, { onlyColors = false } = {}) {
  await iconsAreThere(page);
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(await axe);
  const violations = await page.evaluate(async (runOnly) => {
    // Fixed bars cover content that scrolls beneath them; that is no violation.
    const bars = [...document.querySelectorAll('body *')].filter((it) => ['fixed', 'sticky'].includes(getComputedStyle(it).position));
    for (const bar of bars) bar.style.setProperty('position', 'static');
    const found = await globalThis.axe.run({
      runOnly,
      resultTypes: ['violations'],
      preload: false, // needed by an experimental rule and for sound only
    });
    for (const bar of bars) bar.style.removeProperty('position');
    return found.violations;
  }, onlyColors ? OF_COLORS : WCAG);
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map((node) => node.html).join('\n  ')}`);
  assert.deepEqual(found, [], `axe at ${page.url()}`);
}

/** Shows the page in a color scheme. Waits for transitions: a color halfway belongs to neither scheme. */
export async function inScheme(page, colorScheme) {
  await page.emulateMedia({ colorScheme });
  await page.evaluate(() => Promise.all(document.getAnimations().filter((it) => it instanceof CSSTransition).map((it) => it.finished)));
}

/** Checks the page as it is, in both color schemes: axe, and nothing is wider than the window. Takes pictures. */
export async function holds(page, name) {
  const { width } = page.viewportSize();
  for (const colorScheme of ['light', 'dark']) {
    await inScheme(page, colorScheme);
    await screenshot(page, `${name}-${colorScheme}-${width}`);
    await accessible(page, { onlyColors: colorScheme === 'dark' });
  }
  await inScheme(page, 'light');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${name} at ${width} px is ${wide} px too wide`);
}

/** Opens pages, of which each has a name and a path, on a phone and on a desktop, and checks each (`holds`). */
export async function allHold(server, pages, tolerated = /^$/) {
  for (const width of [320, 1280]) {
    const page = await openPage(server, { viewport: { width, height: 800 } });
    page.tolerate(tolerated);
    for (const [name, path] of pages) {
      await page.goto(path);
      await holds(page, name);
    }
  }
}

/** Path of the file in examples/import/. */
export const BIRD_STRIKES = path.join(here, '..', 'examples', 'import', 'bird-strikes.csv');
