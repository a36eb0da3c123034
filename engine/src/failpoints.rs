//! Fault injection for `cargo xtask faults`: crashes at chosen places and deliberate errors.
//!
//! Without the cargo feature `failpoints` (normal builds, every release) only empty functions are compiled. With it,
//! the variable `FAILPOINTS` configures them in the syntax of the crate `fail`: `before_commit:dispatch/work_batch=5*off->return`
//! aborts the process at the sixth commit of that file. The deliberate errors break promises, so that the checker can
//! prove that it notices; they must never be part of a production server.

/// Reads `FAILPOINTS`. Called once, before serving.
#[cfg(feature = "failpoints")]
pub fn set_up() {
    // Kept until the end of the process: dropping it would disable all failpoints.
    std::mem::forget(fail::FailScenario::setup());
    let points = fail::list();
    if !points.is_empty() {
        tracing::warn!(?points, "failpoints enabled");
    }
}

/// Aborts the process if this point is configured, like a kill: nothing is finished and no response is sent.
#[cfg(feature = "failpoints")]
pub fn crash(edge: &str, file: &str) {
    if reached(&format!("{edge}:{}", place(file))) || reached(edge) {
        // Logging may be buffered; standard error is not.
        eprintln!("crashed on purpose: {edge}:{}", place(file));
        std::process::abort();
    }
}

/// Returns true if this promise is to be broken here.
#[cfg(feature = "failpoints")]
pub fn broken(promise: &str, file: &str) -> bool {
    reached(&format!("{promise}:{}", place(file)))
}

/// Commits in the background, late enough that the client has its response first, and that a kill on this response
/// precedes the commit.
#[cfg(feature = "failpoints")]
pub fn commit_late(tx: sqlx::Transaction<'static, sqlx::Postgres>) {
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        let _ = tx.commit().await;
    });
}

/// `engine/src/dispatch/claim.rs` becomes `dispatch/claim`.
#[cfg(feature = "failpoints")]
fn place(file: &str) -> &str {
    let inside = file.rsplit_once("src/").map_or(file, |(_, inside)| inside);
    inside.strip_suffix(".rs").unwrap_or(inside)
}

#[cfg(feature = "failpoints")]
fn reached(point: &str) -> bool {
    fail::eval(point, |_| ()).is_some()
}

#[cfg(not(feature = "failpoints"))]
pub const fn crash(_: &str, _: &str) {}
