//! Passkeys: registered and removed. The browser and its authenticator are a key pair and a few bytes of CBOR.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData as _};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Caller, TIMEOUT};
use crate::raw::id;

/// Public URL of the servers. Passkeys need a name.
pub(in super::super) const PUBLIC_URL: &str = "http://localhost:8080";
/// Host of that URL, which passkeys belong to.
const RELYING_PARTY: &str = "localhost";

impl Caller {
    /// Registers a passkey, and removes it.
    pub(super) async fn passkeys(&self, n: usize) -> Result<()> {
        let person = self.signed_in(&self.person(n).await?).await?;
        let (name, began) = (format!("key {n}"), Instant::now());
        let passkey = loop {
            let begun =
                person.send_until_answered(Method::POST, "/me/passkeys/options", Some(&json!({})), None).await?;
            let begun = begun.ok()?;
            let challenge = begun["public_key"]["challenge"].as_str().context("a challenge")?;
            let new = json!({"name": name, "state": begun["state"], "credential": credential(challenge)?});
            let made = person.send_until_answered(Method::POST, "/me/passkeys", Some(&new), None).await?;
            let stored = person.get("/me/factors").await?["passkeys"].as_array().context("passkeys")?.clone();
            if made.status < 300 {
                self.confirm(stored.len() == 1 && stored[0]["name"] == name.as_str(), "a passkey")?;
            }
            // Otherwise, an earlier attempt may have succeeded, whose server crashed before it responded.
            if let [passkey] = &stored[..] {
                break id(passkey)?.to_owned();
            }
            ensure!(began.elapsed() < TIMEOUT, "no passkey was accepted: {made:?}");
        };
        person.send_idempotent(Method::DELETE, &format!("/me/passkeys/{passkey}"), None, &[]).await?;
        let left = person.get("/me/factors").await?;
        self.confirm(left["passkeys"].as_array().is_some_and(Vec::is_empty), "a removed passkey")
    }
}

/// Credential that a browser would return for a challenge, without an attestation.
fn credential(challenge: &str) -> Result<Value> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    // An uncompressed point: 4, x, y.
    let point = key.der_bytes();
    ensure!(point.len() == 65, "a public key of {} bytes", point.len());
    let credential_id: [u8; 32] = rand::random();
    let mut data = Sha256::digest(RELYING_PARTY).to_vec();
    // A person is present and verified; the data contains a credential.
    data.push(0x45);
    // Number of signatures, model of the authenticator, length of the id.
    data.extend([0; 4 + 16]);
    data.extend([0, 32]);
    data.extend(credential_id);
    // COSE key: {1: 2 (two coordinates), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}.
    data.extend([0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32]);
    data.extend(&point[1..33]);
    data.extend([0x22, 0x58, 32]);
    data.extend(&point[33..]);
    // {"fmt": "none", "attStmt": {}, "authData": data}.
    let mut attestation = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".to_vec();
    attestation.push(u8::try_from(data.len())?);
    attestation.extend(data);
    let client_data =
        json!({"type": "webauthn.create", "challenge": challenge, "origin": PUBLIC_URL, "crossOrigin": false});
    let id = URL_SAFE_NO_PAD.encode(credential_id);
    Ok(json!({"id": id, "rawId": id, "type": "public-key", "clientExtensionResults": {}, "response": {
        "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data.to_string()),
        "attestationObject": URL_SAFE_NO_PAD.encode(attestation)}}))
}
