//! Propagation of decisions to the rows of a job: at once for decisions of this server, and by polling every half
//! second for those of other servers and of crashes.

use std::time::Duration;

use crate::App;

/// Runs until shutdown.
pub(super) async fn run(app: App) {
    let mut failures = 0_u32;
    loop {
        let open = match app.engine.sweep_walks().await {
            Ok(open) => {
                failures = 0;
                open
            }
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(%error, failures, "rows could not follow a decision; will try again");
                }
                0
            }
        };
        if open > 0 && !app.shutdown.is_cancelled() {
            continue;
        }
        tokio::select! {
            () = app.engine.walk_asked() => {}
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = app.shutdown.cancelled() => return,
        }
    }
}
