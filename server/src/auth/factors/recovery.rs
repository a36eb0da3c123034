//! Recovery codes: each replaces a lost second factor once.
//!
//! Ten codes of 80 random bits, so storing a plain hash is safe. They are shown only when created; new codes replace
//! the old ones.

use domain::{
    Problem,
    identity::factors::{RECOVERY_CODES, RecoveryCodes},
};
use uuid::Uuid;

use super::{lock, person};
use crate::{
    App,
    auth::{people::audit_row, step_up},
};
use engine::{
    access::caller::Caller,
    error::Result,
    secrets::{Hash, hash_of},
    store::{Tx, access::factors as store, notify::audit as log},
    task::in_task,
};

/// Characters of a code, shown in groups of four.
const LENGTH: usize = 16;

/// Crockford's base 32: no two characters look alike.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Creates new codes; the old ones stop working. 422 without a factor that they could replace.
pub async fn renew(app: &App, caller: &Caller) -> Result<RecoveryCodes> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    let recovery_codes = in_task("making recovery codes", async move {
        let mut tx = engine::store::begin(&pool).await?;
        lock(&mut tx, by.owner_id).await?;
        if !store::summary(&mut *tx, by.owner_id).await?.any() {
            let detail = "recovery codes stand in for a second factor, and there is none".to_owned();
            return Err(Problem::invalid_body([(String::new(), detail)]).into());
        }
        let codes = replace(&mut tx, by.owner_id).await?;
        log::record(&mut tx, &audit_row(&by, "user.recovery_codes", by.owner_id, None, None)).await?;
        engine::store::commit(tx).await?;
        Ok(codes)
    })
    .await?;
    Ok(RecoveryCodes { recovery_codes })
}

/// Replaces all codes of a person. Returns the new ones.
pub(super) async fn replace(tx: &mut Tx, owner_id: Uuid) -> Result<Vec<String>> {
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| new_code()).collect();
    let hashes: Vec<Vec<u8>> = codes.iter().map(|code| hash(owner_id, code).to_vec()).collect();
    store::set_recovery_codes(tx, owner_id, &hashes).await?;
    Ok(codes)
}

/// Stored hash of a code, independent of how it was typed.
pub(crate) fn hash(owner_id: Uuid, code: &str) -> Hash {
    hash_of(&format!("recovery code {owner_id} {}", normal(code)))
}

fn new_code() -> String {
    let random: [u8; LENGTH] = rand::random();
    let letters: String = random.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    let groups: Vec<&str> = (0..LENGTH).step_by(4).map(|at| &letters[at..at + 4]).collect();
    groups.join("-")
}

/// Normalizes a typed code.
fn normal(code: &str) -> String {
    let letters = code.chars().take(100).filter(char::is_ascii_alphanumeric).map(|c| match c.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        other => other,
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_matches_in_any_spelling() {
        let (owner, code) = (Uuid::now_v7(), new_code());
        assert_eq!(code.len(), 19);
        assert_ne!(code, new_code());
        assert_eq!(hash(owner, &code), hash(owner, &format!(" {} ", code.to_uppercase().replace('-', " "))));
        assert_ne!(hash(owner, &code), hash(Uuid::now_v7(), &code), "a code is one person's");
        assert_eq!(normal("O0-Il1"), "00111");
    }
}
