// A clerk whose browser is German imports a file to its end: texts, numbers and live counts are German, on a desktop and on a
// phone; and the language is chosen under Account.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, openPage, screenshot, startServer, whenLive } from '../harness.mjs';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const ROWS = 10_000;

const TYPE = {
  executor: { kind: 'builtin', name: 'validate' },
  max_failures: 1,
  payload_schema: { type: 'object', properties: { betrag: { type: 'number' } }, required: ['betrag'] },
};

async function fits(page) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${page.url()} does not scroll sideways`);
}

for (const [device, options] of [['desktop', {}], ['phone', PHONE]]) {
  test(`an import in German: ${device}`, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.api('PUT', '/job-types/buchungen', TYPE)).ok, true);
    const page = await openPage(server, { path: '/imports/new', locale: 'de-DE', timezoneId: 'Europe/Berlin', ...options });
    assert.equal(await page.locator('html').getAttribute('lang'), 'de-DE');
    await page.locator('html[data-islands="ready"]').waitFor({ state: 'attached' });
    await page.getByText('Dateien zum Importieren hier ablegen').waitFor();
    page.tolerate(/status of 415/);
    await page.setInputFiles('input[type=file]', { name: 'buchungen.zip', mimeType: 'application/zip', buffer: Buffer.from('PK\u0003\u0004zip') });
    await page.getByText('Die Datei ist ein ZIP-Archiv').waitFor();
    await accessible(page);
    await fits(page);
    await screenshot(page, `german-new-${device}`);

    const row = (n) => (n % 5_000 === 0 ? 'viel' : `${n}`);
    const text = `betrag\n${Array.from({ length: ROWS }, (_, n) => `${row(n + 1)}\n`).join('')}`;
    await page.setInputFiles('input[type=file]', { name: 'buchungen.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await page.locator('[data-upload="stored"]').waitFor();
    await page.selectOption('#type', 'buchungen');
    await page.locator('#rows-summary').getByText('9.998 Zeilen sind bereit, 2 sind zu prüfen').waitFor();
    await accessible(page);
    await fits(page);
    await screenshot(page, `german-review-${device}`);

    await page.getByRole('button', { name: '9.998 Zeilen importieren' }).click();
    await page.waitForURL(/\/imports\/[0-9a-f-]{36}$/);
    await whenLive(page, 'finished');
    // Written by the browser while the import ran.
    await page.getByText('9.998 von 10.000 Zeilen sind importiert. 2 Zeilen müssen Sie prüfen.').first().waitFor();
    await page.getByText('Fehlgeschlagene Zeilen', { exact: true }).first().waitFor();
    await page.getByText('gerade eben').first().waitFor({ state: 'attached' });
    await accessible(page);
    await fits(page);
    await screenshot(page, `german-import-${device}`);

    await page.goto('/imports');
    await page.getByText('10.000 Zeilen').first().waitFor();
    await accessible(page);
    await fits(page);
    await screenshot(page, `german-imports-${device}`);
  });
}

test('the language is chosen on the sign-in page and under Account', async (t) => {
  const server = await startServer(t);
  const stranger = await openPage(server, { signedIn: false, path: '/sign-in', locale: 'en-US' });
  await stranger.getByRole('button', { name: 'Deutsch' }).click();
  await stranger.getByRole('heading', { name: 'Anmelden' }).waitFor();
  await accessible(stranger);

  const page = await openPage(server, { path: '/account', locale: 'en-US' });
  await page.getByRole('combobox', { name: 'Language' }).selectOption('de');
  await page.getByRole('button', { name: 'Save language' }).click();
  await page.getByText('Ihre Sprache ist gespeichert.').waitFor();
  await page.goto('/imports');
  await page.getByRole('heading', { name: 'Importe', exact: true }).waitFor();
  await accessible(page);
});

test('the browser writes times as the server did, also before ten', async (t) => {
  const server = await startServer(t);
  assert.equal((await server.api('PUT', '/job-types/bookings', TYPE)).ok, true);
  const job = await (await server.api('POST', '/jobs', { type: 'bookings', items: [{ payload: { betrag: 1 } }] })).json();
  // A zone in which it is three o'clock in the morning.
  const ahead = ((3 - new Date().getUTCHours() + 36) % 24) - 12;
  const timezoneId = `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`;
  for (const locale of ['en-US', 'de-DE', 'es-ES', 'fr-FR']) {
    // The first page tells the server the zone.
    const page = await openPage(server, { path: '/imports', locale, timezoneId });
    // Without the server's offset, the script writes all times itself.
    await page.route('**/*', async (route) => {
      if (route.request().resourceType() !== 'document') return route.continue();
      const response = await route.fetch();
      const body = (await response.text()).replace(/ data-offset="[^"]+"/, '');
      return route.fulfill({ response, body });
    });
    for (const path of [`/jobs/${job.id}?view=timeline`, '/audit']) {
      const html = await (await page.goto(path)).text();
      const compared = await page.evaluate(async (html) => {
        if ('offset' in document.documentElement.dataset) throw new Error('the script has written nothing');
        // The script writes times in a task of its own.
        await new Promise((resolve) => setTimeout(resolve));
        const times = (root) => [...root.querySelectorAll('time[data-format="clock"], time[data-format="second"]')];
        const written = new Map(times(document).map((time) => [time.dateTime + time.dataset.format, time.textContent]));
        const served = times(new DOMParser().parseFromString(html, 'text/html'));
        const pairs = served.map((time) => [time.textContent, written.get(time.dateTime + time.dataset.format)]);
        // A newer list may have come meanwhile.
        return pairs.filter(([, text]) => text);
      }, html);
      assert.notEqual(compared.length, 0, path);
      for (const [served, written] of compared) assert.equal(written, served, `${path} in ${locale}`);
    }
  }
});
