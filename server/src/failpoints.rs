//! Crashes at chosen places, and faults that are made on purpose, for `cargo xtask faults`.
//!
//! Without the cargo feature `failpoints` (a normal build, every release) nothing of this is compiled but empty
//! functions that the compiler drops. With it, the variable `FAILPOINTS` says what happens where, in the words
//! of the crate `fail`: `before_commit:jobs/work=5*off->return` ends the process at the sixth commit of that
//! file. Its second half breaks promises, so that the checker can show that it notices: it must never be
//! part of a server that is meant to work.

/// Reads `FAILPOINTS`. Called once, before anything is served.
#[cfg(feature = "failpoints")]
pub fn set_up() {
    // Held to the end of the process: dropping it would switch everything off again.
    std::mem::forget(fail::FailScenario::setup());
    tracing::warn!(points = ?fail::list(), "this server was built to fail");
}

/// Ends the process where it stands if that was asked for here, as a killed one does: nothing is
/// finished, nobody is answered.
#[cfg(feature = "failpoints")]
pub(crate) fn crash(edge: &str, file: &str) {
    if reached(&format!("{edge}:{}", place(file))) || reached(edge) {
        // The log is not waited for; standard error is not buffered.
        eprintln!("crashed on purpose: {edge}:{}", place(file));
        std::process::abort();
    }
}

/// Whether a promise is to be broken here.
#[cfg(feature = "failpoints")]
pub(crate) fn broken(promise: &str, file: &str) -> bool {
    reached(&format!("{promise}:{}", place(file)))
}

/// Commits in the background, so much later that whoever asked has his answer by then, and a kill that comes with the
/// answer comes first.
#[cfg(feature = "failpoints")]
pub(crate) fn commit_late(tx: crate::store::Tx) {
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        let _ = tx.commit().await;
    });
}

/// `server/src/jobs/work.rs` is `jobs/work`.
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
pub(crate) const fn crash(_: &str, _: &str) {}
