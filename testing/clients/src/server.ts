// The server under test, from the environment: where it is, and a token that may do everything.

function needed(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run cargo xtask clients`);
  return value;
}

export const baseUrl = needed('TREELINE_URL');
export const admin = needed('TREELINE_TOKEN');

/** A name that no other run has used. */
export const fresh = (what: string): string => `${what}-${Date.now().toString(36)}${Math.floor(Math.random() * 1e6)}`;
