//! The first admin, by the link that a server prints at its start while there is no admin.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    time::Duration,
};

use anyhow::Result;
use serde_json::json;

use super::Caller;

/// Bytes at the end of a log that are searched for a link.
const SEARCHED: u64 = 256 << 10;
const ADMINS: &str = "select count(*) from owner where role = 'admin' and kind = 'user'";

impl Caller {
    /// Signs in the first admin, and takes the role away again, so that the next server that starts prints a link.
    ///
    /// Does nothing if no link is valid: then no server has started since.
    pub(super) async fn first_admin(&self, n: usize) -> Result<()> {
        for log in &self.shared.environment.logs {
            let text = end_of(log)?;
            let Some((_, link)) = text.rsplit_once("Sign in: ") else { continue };
            let link = link.lines().next().unwrap_or_default();
            let answer = self.sign_in(&json!({"link": link})).await?;
            let admins: i64 = sqlx::query_scalar(ADMINS).fetch_one(&self.shared.environment.pool).await?;
            if answer.status() == 204 {
                let me = self.in_session(&answer, None)?.get("/me").await?;
                self.confirm(admins == 1 && me["role"] == "admin", &format!("{admins} first admins: {me}"))?;
            }
            // Otherwise, an earlier attempt may have succeeded, whose server crashed before it responded.
            if admins > 0 {
                // No request does this: the last admin remains one.
                let changed =
                    "update owner set role = 'user', name = 'admin ' || $1 where role = 'admin' and kind = 'user'";
                sqlx::query(changed).bind(n.to_string()).execute(&self.shared.environment.pool).await?;
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    }
}

/// Text at the end of a log.
fn end_of(log: &Path) -> Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
