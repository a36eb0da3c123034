// Authentication in a real browser: passkeys of a virtual authenticator, and the complete flow of a real OpenID Connect
// provider.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import Provider from 'oidc-provider';
import { accessible, openPage, screenshot, signOut, startServer } from '../harness.mjs';

/** The code that an authenticator app shows for a secret, so many steps of thirty seconds from now (RFC 6238). */
function totp(secret, steps) {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const bits = [...secret].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const digest = createHmac('sha1', key).update(counter).digest();
  const at = digest[19] & 15;
  return String((digest.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

/** Browsers support passkeys only for host names: the server is reached as localhost. */
const byName = (address) => ({ TREELINE_PUBLIC_URL: `http://localhost:${address.split(':').pop()}` });

test('a passkey is added, signs in without a name, confirms an action, and is removed', async (t) => {
  const server = await startServer(t, byName);
  const page = await openPage(server, { signedIn: false, path: await server.signInLink });
  page.tolerate(/status of 4(01|03|22)/);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  await page.locator('main form button').click();
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));

  await page.goto('/account');
  await screenshot(page, 'account-no-factors');
  await accessible(page);
  await page.getByLabel('Name of the new passkey').fill('Work laptop');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByText('Keep these recovery codes').waitFor();
  const codes = (await page.locator('#new-recovery-codes pre').textContent()).split('\n');
  assert.equal(codes.length, 10);
  await screenshot(page, 'passkey-recovery-codes');
  await page.getByRole('link', { name: 'I have kept them' }).click();
  await page.getByText('Work laptop', { exact: true }).waitFor();
  await accessible(page);
  await screenshot(page, 'account-passkey');

  // It is renamed, and the device refuses a second one.
  await page.getByLabel('Rename Work laptop').click();
  await page.getByLabel('New name of Work laptop').fill('Laptop');
  await page.locator('#factors').getByRole('button', { name: 'Save' }).click();
  await page.getByText('The passkey has its new name').waitFor();
  await page.getByText('Laptop', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByText('This device has a passkey for your account already').waitFor();

  // Signing in needs only the passkey. The device is not touched before the button is pressed.
  const touch = (enabled) => cdp.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled });
  await touch(false);
  await signOut(page);
  await page.getByText('You are signed out').waitFor();
  await accessible(page);
  await screenshot(page, 'sign-in-passkey');
  assert.equal(await page.getByLabel('Email address').getAttribute('autocomplete'), 'username webauthn');
  await touch(true);
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));

  // A sensitive action, eleven minutes later.
  await server.query("update session set authenticated_at = authenticated_at - interval '11 minutes'");
  await page.goto('/services');
  await page.locator('form[action="/services"] input[name=name]').fill('payroll');
  await page.locator('form[action="/services"] button[type=submit]').click();
  await page.getByRole('heading', { name: 'Confirm that it is you' }).waitFor();
  await accessible(page);
  await screenshot(page, 'step-up');
  await page.getByRole('button', { name: 'Use a passkey' }).click();
  await page.waitForURL(/\/services$/);
  await page.getByText('payroll').first().waitFor();

  // It is the only way to sign in. With a password it can be removed.
  const remove = async () => {
    await page.locator('summary[aria-label="Remove the passkey Laptop…"]').click();
    await page.getByRole('button', { name: 'Remove the passkey Laptop', exact: true }).click();
  };
  await page.goto('/account');
  await remove();
  await page.getByText('You could not sign in without it').waitFor();
  await server.query("update owner set email = 'root@example.com' where kind = 'user'");
  await page.goto('/account');
  await page.getByLabel('New password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Set password' }).click();
  await page.getByText('Your password is set').waitFor();
  await remove();
  await page.getByText('The passkey is removed').waitFor();
});

test('a provider signs people in, and its groups give them their role', async (t) => {
  // The provider first: its URL is in the server's settings.
  const http = createServer();
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.after(() => http.close());
  const issuer = `http://localhost:${http.address().port}`;
  let groups = ['help-desk'];
  let callback;
  const server = await startServer(t, (address) => {
    const named = byName(address);
    callback = `${named.TREELINE_PUBLIC_URL}/sign-in/oidc/test-idp/callback`;
    return {
      ...named,
      TREELINE_OIDC_PROVIDERS: 'test-idp',
      TREELINE_OIDC_TEST_IDP_ISSUER: issuer,
      TREELINE_OIDC_TEST_IDP_LABEL: 'Northwind',
      TREELINE_OIDC_TEST_IDP_CLIENT_ID: 'treeline',
      TREELINE_OIDC_TEST_IDP_CLIENT_SECRET: 'a-secret-of-the-client',
      TREELINE_OIDC_TEST_IDP_SCOPES: 'profile email',
      TREELINE_OIDC_TEST_IDP_ROLE_MAP: 'operators=admin,help-desk=support',
    };
  });
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'treeline', client_secret: 'a-secret-of-the-client', redirect_uris: [callback] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
    pkce: { required: () => true },
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: async () => ({ sub, name: 'Grace Hopper', email: `${sub}@example.com`, email_verified: true, groups }),
    }),
  });
  http.on('request', provider.callback());

  const signIn = async (page, login) => {
    await page.goto('/sign-in?back=/imports');
    await accessible(page);
    await screenshot(page, 'sign-in-provider');
    await page.getByRole('link', { name: 'Sign in with Northwind' }).click();
    if (login) {
      await page.locator('input[name=login]').fill(login);
      await page.locator('input[name=password]').fill('anything');
      await page.locator('button[type=submit]').click();
      await page.locator('button[type=submit]').click();
    }
  };
  const page = await openPage(server, { signedIn: false });
  // The provider's own pages are not under test.
  page.tolerate(/./);
  await signIn(page, 'grace');
  await page.waitForURL(/\/imports$/);
  const me = () => page.evaluate(async () => (await fetch('/api/v1/me')).json());
  const { name, role } = await me();
  assert.deepEqual({ name, role }, { name: 'Grace Hopper', role: 'support' });
  assert.deepEqual(await server.query('select issuer, subject from identity_link'), [[issuer, 'grace']]);

  // Again: the same account, with another role because the groups have changed.
  groups = ['operators'];
  await signOut(page);
  await page.getByText('You are signed out').waitFor();
  await signIn(page);
  await page.waitForURL(/\/imports$/);
  assert.equal((await me()).role, 'admin');
  assert.deepEqual(await server.query("select count(*) from owner where kind = 'user'"), [['1']]);

  // It is the only way to sign in, so it stays; the account page shows the connection.
  await page.goto('/account');
  await accessible(page);
  await screenshot(page, 'account-provider');
  await page.getByRole('button', { name: 'Disconnect Northwind' }).click();
  await page.getByText('You could not sign in without it').waitFor();

  // With an authenticator app its code is required after the provider, too.
  await page.goto('/account');
  await page.getByRole('button', { name: 'Set up an authenticator app' }).click();
  await page.getByRole('heading', { name: 'Set up an authenticator app' }).waitFor();
  await accessible(page);
  await screenshot(page, 'totp');
  await page.locator('#code').fill(totp(await page.locator('#totp-key').inputValue(), 0));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('heading', { name: 'Your recovery codes' }).waitFor();
  await accessible(page);
  await page.getByRole('link', { name: 'I have kept them' }).click();
  const secret = await server.query('select count(*) from totp where confirmed_at is not null');
  assert.deepEqual(secret, [['1']]);
  await signOut(page);
  await page.getByText('You are signed out').waitFor();
  await signIn(page);
  await page.getByRole('heading', { name: 'Second factor' }).waitFor();
  await accessible(page);
  await screenshot(page, 'second-factor');

  // A response that this browser did not request signs nobody in.
  const stranger = await openPage(server, { signedIn: false });
  stranger.tolerate(/./);
  await stranger.goto(`${callback}?code=stolen&state=guessed`);
  await stranger.getByRole('heading', { name: 'You are not signed in' }).waitFor();

  // An existing account with the same email address is not taken over.
  await server.api('POST', '/users', { name: 'Linus', email: 'linus@example.com', password: 'correct horse battery' });
  await signIn(stranger, 'linus');
  await stranger.getByRole('heading', { name: 'You are not signed in' }).waitFor();
  await stranger.getByText('An account here has this email address').waitFor();
});
