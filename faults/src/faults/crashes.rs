//! Servers that die at every commit: just before it, just after it, and before the answer goes out.
//!
//! The points are found in the server's own source: whatever commits does so through `store::commit`, which `server/tests/house.rs`
//! holds. Each start arms all points that have not been reached often enough; the first one that is reached kills.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;

use super::{Played, Story, end, patience, scaled};
use crate::{
    load::Load,
    stage::{
        House, Setting, Stage,
        process::{Server, is_abort},
    },
};

pub(super) const FAULTS: &[(&str, Story)] = &[("F02", |house| at_every_commit(house).boxed())];

/// F02.
async fn at_every_commit(house: &House) -> Result<Played> {
    let mut tally: BTreeMap<String, usize> = points()?.into_iter().map(|point| (point, 0)).collect();
    let mut stage = Stage::set(house, Setting::default()).await?;
    let (wanted, time) = scaled(house, (1, Duration::from_secs(20)), (50, Duration::from_mins(20)));
    let load = stage.load(Load { calls_a_second: Some(4.0), cancels: 6, ..Load::of(house.items, house.seed) })?;
    let began = Instant::now();
    for server in &mut stage.servers {
        server.process.kill().await?;
        arm(server, &tally, wanted)?;
    }
    while began.elapsed() < time && !(load.is_finished() && stage.is_drained().await == Some(true)) {
        for server in &mut stage.servers {
            let Some(status) = server.process.look()? else { continue };
            let log = std::fs::read_to_string(server.process.log())?;
            ensure!(is_abort(status), "a server ended with {status}; its log ends {:?}", log.lines().last());
            let (_, point) = log.rsplit_once("crashed on purpose: ").context("a crash that nobody asked for")?;
            *tally.entry(point.lines().next().unwrap_or_default().trim().to_owned()).or_default() += 1;
            arm(server, &tally, wanted)?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for server in &mut stage.servers {
        server.process.kill().await?;
        server.process.unset("FAILPOINTS");
        server.start().await?;
    }
    let (crashes, reached) = (tally.values().sum::<usize>(), tally.values().filter(|n| **n > 0).count());
    ensure!(crashes > 0, "no server crashed in {:?}", patience(house));
    let all = tally.len();
    let done = format!(
        "{crashes} crashes at {reached} of the {all} points before and after every commit and before the answer"
    );
    end(house, stage, load, done).await
}

/// Starts a server that crashes at whichever of the points it reaches first.
fn arm(server: &mut Server, tally: &BTreeMap<String, usize>, wanted: usize) -> Result<()> {
    let open = tally.iter().filter(|(_, n)| **n < wanted).map(|(point, _)| {
        // What is passed all the time is passed a while before it kills, so that others have their turn.
        let busy = ["jobs/work", "jobs/beat", "jobs/figures", "jobs/tend", "jobs/deliveries", "http/"];
        let first = if busy.iter().any(|file| point.contains(file)) { 30..120 } else { 0..3 };
        format!("{point}={}*off->return", rand::random_range(first))
    });
    let points = open.collect::<Vec<_>>().join(";");
    server.process.unset("FAILPOINTS");
    server.process.set("FAILPOINTS", &points);
    server.process.start()
}

/// Both edges of every commit in the server's source, and the answer.
fn points() -> Result<Vec<String>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let mut points = vec!["before_reply:http/layers".to_owned()];
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && std::fs::read_to_string(&path)?.contains("commit(tx)")
                && !path.ends_with("store/commit.rs")
            {
                let place = path.strip_prefix(&source)?.with_extension("").display().to_string();
                points.extend([format!("before_commit:{place}"), format!("after_commit:{place}")]);
            }
        }
    }
    Ok(points)
}
