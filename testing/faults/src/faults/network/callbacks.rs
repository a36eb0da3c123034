//! F28c: the connection between the server and the callback receiver breaks after every single byte of an exchange,
//! drops everything, or is refused. In the end the receiver has a callback of every tree.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use domain::id::Uuid;
use futures::future::try_join_all;
use serde_json::json;
use sqlx::PgPool;

use crate::{
    checker,
    findings::Findings,
    fixture::RunContext,
    proxy::{Cut, Mode, Proxy, Way},
    proxy_fixture::ProxyFixture,
    raw::{Api, until},
    receiver::{Receiver, target},
};

/// Number of proxies that are cut in parallel; each is a separate host to the server.
const WIRES: usize = 12;
/// Number of repetitions of each fault without a byte position.
const WHOLE: usize = 6;

/// Creates one tree for each position and each kind of a cut, with a cut every `step` bytes.
pub(crate) async fn run(context: &RunContext, step: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let receiver = Receiver::listen(proxy_fixture.folder().join("receiver")).await?;
    let quick = [("TREELINE_CALLBACK_RETRY_SECONDS", "0.2"), ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "0.5")];
    let mut running = proxy_fixture.serve(&quick).await?;
    running.api.put_type("told", &json!({})).await?;
    let proxies: Vec<Proxy> = try_join_all((0..WIRES).map(|_| Proxy::to(receiver.addr()))).await?;

    // The first callback passes, and gives the length of an exchange.
    let mut trees = vec![tree(&running.api, "told-whole", &proxies[0]).await?];
    arrives(&proxy_fixture.pool, trees[0].1).await?;
    let tries = receiver.received()?.len().max(1);
    let lengths = [Way::There, Way::Back].map(|way| proxies[0].bytes(way) as usize / tries);
    ensure!(lengths.iter().all(|length| *length > 50), "an exchange of {lengths:?} bytes");
    let mut places = VecDeque::new();
    for (behavior, how) in [Cut::Reset, Cut::HalfClose, Cut::Silence].into_iter().enumerate() {
        for (way, length) in [(Way::There, lengths[0]), (Way::Back, lengths[1])] {
            // Each run and each kind begins at another byte, so that together they cover every position.
            let first = (context.seed as usize + behavior * step / 3) % step;
            places.extend((first..=length).step_by(step).map(|at| Mode::CutAfter(way, at as u64, how)));
        }
    }
    let cuts = places.len();
    for mode in [Mode::BlackHole, Mode::Refuse, Mode::Lose(Way::There), Mode::Lose(Way::Back)] {
        places.extend([mode; WHOLE]);
    }
    let mut findings = Findings::new(format!(
        "the connection to the callback receiver cut {cuts} times (reset, half-close, silence; every {step} bytes \
         of a request of {} and a response of {}); {} callbacks swallowed or refused",
        lengths[0],
        lengths[1],
        4 * WHOLE
    ));
    let queue = Arc::new(Mutex::new(places));
    let runs =
        proxies.iter().enumerate().map(|(index, proxy)| cut(&proxy_fixture.pool, &running.api, proxy, index, &queue));
    for part in try_join_all(runs).await? {
        trees.extend(part);
    }
    findings.callbacks = checker::check_callbacks(&proxy_fixture.pool, trees.clone(), receiver.received()?).await?;
    findings.acknowledged = trees.len() as u64;
    findings.stuck = proxy_fixture.number("select count(*) from delivery where state <> 2").await? as u64;
    let retries = findings.callbacks.callback_retries;
    findings.check_in_time(retries > 0, || format!("{retries} retries for {cuts} cuts, so nothing was tested"));
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Takes one position after the other, cuts there, and restores the proxy after the first attempt.
async fn cut(
    pool: &PgPool,
    api: &Api,
    proxy: &Proxy,
    index: usize,
    queue: &Mutex<VecDeque<Mode>>,
) -> Result<Vec<(String, Uuid)>> {
    let mut trees = Vec::new();
    loop {
        let place = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(place) = place else { return Ok(trees) };
        proxy.set(place);
        let one = tree(api, &format!("told-{index}-{}", trees.len()), proxy).await?;
        until("a try", Duration::from_secs(20), async || Ok(tries(pool, one.1).await?.0 > 0))
            .await
            .with_context(|| format!("at {place:?}"))?;
        proxy.set(Mode::Pass);
        proxy.reset();
        arrives(pool, one.1).await.with_context(|| format!("at {place:?}"))?;
        trees.push(one);
    }
}

/// Creates a tree that is complete at once, with a callback through this proxy.
async fn tree(api: &Api, name: &str, proxy: &Proxy) -> Result<(String, Uuid)> {
    let tree = json!({"type": "told", "name": name, "sealed": true, "on_completed": target(proxy.port())});
    Ok((name.to_owned(), api.tree(&tree).await?.parse()?))
}

/// Number of attempts of a tree's callback, and true if it is final.
async fn tries(pool: &PgPool, job: Uuid) -> Result<(i32, bool)> {
    let tries =
        "select coalesce(sum(tries), 0)::int, coalesce(bool_and(state <> 1), false) from delivery where job_id = $1";
    Ok(sqlx::query_as(tries).bind(job).fetch_one(pool).await?)
}

async fn arrives(pool: &PgPool, job: Uuid) -> Result<Duration> {
    until("the callback over an intact connection", Duration::from_secs(30), async || Ok(tries(pool, job).await?.1))
        .await
}
