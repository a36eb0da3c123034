//! Revocations made by other servers, and deletion of expired credentials.

use super::driver::Tasks;
use crate::auth::{keep_bootstrap_token, look_for_changes, revoke_old_bootstrap_tokens};
use engine::store::access::{people, sign_in};

/// Starts the look-up of revocations, which ends what goes on under them in this process, and keeps its bootstrap token.
pub(super) fn spawn_changes(tasks: &Tasks<'_>) {
    tasks.every(0.25, "credentials", |app| async move { look_for_changes(&app).await.map(|()| 0) });
    tasks.every(60.0, "bootstrap token", |app| async move { keep_bootstrap_token(&app).await.map(|()| 0) });
}

/// Starts the deletion of what is no longer needed.
pub(super) fn spawn_cleanup(tasks: &Tasks<'_>) {
    tasks.every(60.0, "failed sign-ins", |app| async move {
        sign_in::forget(&app.pool).await?;
        Ok(0)
    });
    tasks.every(3_600.0, "old credentials", |app| async move {
        revoke_old_bootstrap_tokens(&app).await?;
        Ok(people::forget(&app.pool).await? as usize)
    });
}
