//! F10, F11, F20: the database crashes, restarts, and terminates sessions during the workload. Servers keep running.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::block_in_place;

use super::super::{Played, end, scaled};
use crate::{
    checker::Kind,
    load::Load,
    stage::{House, Setting, Stage, postgres::Going},
};

/// Longest time until servers are ready again by themselves (P19).
const BACK: Duration = Duration::from_secs(30);

/// F10: PostgreSQL stopped as by a power loss, its postmaster killed, one of its backends killed.
pub(crate) async fn crashes(house: &House) -> Result<Played> {
    let each = scaled(house, 2, 20);
    let manners = [Some(Going::Immediate), Some(Going::Killed), None];
    disturbed(house, each * manners.len(), Duration::from_millis(1_500), async |stage, times| {
        match manners[times % manners.len()] {
            Some(going) => {
                block_in_place(|| house.postgres.go(going))?;
                block_in_place(|| house.postgres.come_back())
            }
            None => kill_backend(stage).await,
        }
    })
    .await
    .map(|(played, times, back)| Played {
        done: format!(
            "PostgreSQL stopped at once, its postmaster killed, a backend killed, {times} times in turn; {back}"
        ),
        ..played
    })
}

/// F11: fast restarts, as in a fail-over.
pub(crate) async fn restarts(house: &House) -> Result<Played> {
    let least = scaled(house, 4, 20);
    disturbed(house, least, Duration::from_secs(2), async |_, _| {
        block_in_place(|| house.postgres.go(Going::Fast))?;
        block_in_place(|| house.postgres.come_back())
    })
    .await
    .map(|(played, times, back)| Played { done: format!("PostgreSQL restarted fast, {times} times; {back}"), ..played })
}

/// F20: a session of a server is terminated every 100 ms.
pub(crate) async fn sessions(house: &House) -> Result<Played> {
    let least = scaled(house, 80, 1_000);
    disturbed(house, least, Duration::from_millis(100), async |stage, _| {
        let one = "select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'treeline' order by random() limit 1";
        let ended: Option<bool> = sqlx::query_scalar(one).fetch_optional(&stage.pool).await?;
        ensure!(ended != Some(false), "a session could not be ended");
        Ok(())
    })
    .await
    .map(|(played, times, back)| Played {
        done: format!("a session of a server ended, {times} times; {back}"),
        ..played
    })
}

/// Kills the backend of one session (`kill -9`): PostgreSQL drops all sessions and recovers.
async fn kill_backend(stage: &mut Stage) -> Result<()> {
    let one = "select pid from pg_stat_activity
        where datname = current_database() and application_name = 'treeline' order by random() limit 1";
    let pid: i32 = sqlx::query_scalar(one).fetch_one(&stage.pool).await.context("a backend to kill")?;
    kill_process(Pid::from_raw(pid).context("a process")?, Signal::KILL)?;
    Ok(())
}

/// Repeats a disturbance during the workload. Returns the number of repetitions, and a text about the recovery time.
async fn disturbed<F>(house: &House, least: usize, pause: Duration, mut play: F) -> Result<(Played, usize, String)>
where
    F: AsyncFnMut(&mut Stage, usize) -> Result<()>,
{
    let mut stage = Stage::set(house, Setting::default()).await?;
    let load = stage.load(Load::of(house.items, house.seed))?;
    let (mut times, mut slowest) = (0, Duration::ZERO);
    // The disturbances stop before the workload ends: with them it would take too long.
    while times < least {
        tokio::time::sleep(pause).await;
        play(&mut stage, times).await?;
        times += 1;
        slowest = slowest.max(back(&mut stage).await?);
    }
    let mut restarted = 0;
    for server in &mut stage.servers {
        ensure!(server.process.look()?.is_none(), "a server ended by itself");
        restarted += server.process.starts - 1;
    }
    let mut played = end(house, stage, load, String::new()).await?;
    if restarted > 0 {
        played.verdict.find(Kind::Story, format!("{restarted} servers had to be started again"));
    }
    if slowest > BACK {
        played.verdict.find(Kind::Slow, format!("a server came back after {slowest:?} only"));
    }
    Ok((played, times, format!("servers stayed, and served again within {} ms", slowest.as_millis())))
}

/// Time until every server is ready.
async fn back(stage: &mut Stage) -> Result<Duration> {
    let begun = Instant::now();
    for server in &mut stage.servers {
        server.serves(BACK * 2).await?;
    }
    Ok(begun.elapsed())
}
