//! F28: a connection that breaks after every single byte of an exchange. A retry gets the same response.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    proxy::{Cut, Mode, Proxy, Way},
    proxy_fixture::ProxyFixture,
    raw::{Api, exchange, exchange_whole, id, no_answer, request, until, whole_body},
};

/// Time for which a worker waits on a silent connection.
const SILENT: Duration = Duration::from_millis(150);

/// Longest wait for an answer over a whole connection.
const ANSWER: Duration = Duration::from_mins(1);

/// Connection that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutConnection {
    /// Between the worker and the server.
    Worker,
    /// Between the server and the database.
    Database,
}

/// Makes one claim and one result for each position and each kind of a cut, with a cut every `step` bytes.
pub(crate) async fn run(context: &RunContext, connection: CutConnection, step: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    running.api.put_type("cut", &json!({"heartbeat_seconds": 60})).await?;
    let direct = running.addr;
    let near = Proxy::to(direct).await?;
    let (cutting, through) = match connection {
        CutConnection::Worker => (&near, SocketAddr::from(([127, 0, 0, 1], near.port()))),
        CutConnection::Database => (&proxy_fixture.proxy, direct),
    };

    let lengths = lengths(&proxy_fixture, &running.api, cutting, through).await?;
    let mut places = Vec::new();
    for (behavior, how) in [Cut::Reset, Cut::HalfClose, Cut::Silence].into_iter().enumerate() {
        for (way, length) in [(Way::There, lengths[0]), (Way::Back, lengths[1])] {
            // Each run and each kind begins at another byte, so that together they cover every position.
            let first = (context.seed as usize + behavior * step / 3) % step;
            places.extend((first..=length).step_by(step).map(|at| Mode::CutAfter(way, at as u64, how)));
        }
    }
    let mut exchanges = Exchanges { proxy: cutting, through, direct, cut: 0, findings: Findings::default() };
    for part in places.chunks(1_000) {
        let items: Vec<Value> = part.iter().map(|_| json!({"payload": "cut me"})).collect();
        running.api.tree(&json!({"type": "cut", "sealed": true, "items": items})).await?;
        exchanges.findings.acknowledged += part.len() as u64;
        for &place in part {
            exchanges.claim_and_end(place).await.with_context(|| format!("at {place:?}"))?;
        }
    }
    let Exchanges { mut findings, cut, .. } = exchanges;
    let all = 2 * places.len();
    findings.summary = format!(
        "{cut} of {all} claims and results cut off (reset, half-close, silence; every {step} bytes of a request of {} \
         and a response of {})",
        lengths[0], lengths[1]
    );
    // Shorter requests and responses end before the last positions.
    findings.check_in_time(4 * cut > all, || format!("only {cut} of {all} were cut off, so nothing was tested"));
    findings.lost = findings
        .acknowledged
        .saturating_sub(proxy_fixture.number("select count(*) from outcome where state = 1").await? as u64);
    findings.doubled = proxy_fixture.number("select count(*) from outcome where attempt <> 1").await? as u64;
    findings.stuck =
        proxy_fixture.number("select (select count(*) from ready) + (select count(*) from lease)").await? as u64;
    findings
        .expect_zero("attempts beside the first", proxy_fixture.number("select count(*) from attempt").await? as u64);
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Bytes of a claim and of its result in both directions; the longer one limits the positions of cuts.
async fn lengths(proxy_fixture: &ProxyFixture, api: &Api, proxy: &Proxy, through: SocketAddr) -> Result<[usize; 2]> {
    api.tree(&json!({"type": "cut", "sealed": true, "items": [{"payload": "cut me"}]})).await?;
    let mut most = [0; 2];
    let mut assignment_id = String::new();
    for turn in 0..2 {
        let bytes = if turn == 0 { claiming(Uuid::now_v7()) } else { ending(&assignment_id) };
        let before = [proxy.bytes(Way::There), proxy.bytes(Way::Back)];
        let body = exchange_whole(through, &bytes, ANSWER).await?;
        for (way, most) in [Way::There, Way::Back].into_iter().zip(&mut most) {
            *most = usize::max(*most, (proxy.bytes(way) - before[way as usize]) as usize);
        }
        if turn == 0 {
            id(&body["assignments"][0])?.clone_into(&mut assignment_id);
        }
    }
    ensure!(proxy_fixture.number("select count(*) from outcome").await? == 1, "the item has ended");
    Ok(most)
}

fn claiming(claim_id: Uuid) -> Vec<u8> {
    let claim = json!({"worker_id": "cut", "types": ["cut"], "max": 1, "claim_id": claim_id});
    request("POST", "/assignments", TOKEN, Some(&claim))
}

fn ending(assignment_id: &str) -> Vec<u8> {
    request("POST", &format!("/assignments/{assignment_id}/result"), TOKEN, Some(&json!({"result": {"done": true}})))
}

/// Claims and results whose connections are cut.
struct Exchanges<'a> {
    /// Proxy that cuts.
    proxy: &'a Proxy,
    /// Address of the server over which requests are cut, and its own.
    through: SocketAddr,
    direct: SocketAddr,
    /// Number of requests during which a connection was cut.
    cut: usize,
    findings: Findings,
}

impl Exchanges<'_> {
    /// Claims an item and ends it, each cut and retried.
    async fn claim_and_end(&mut self, place: Mode) -> Result<()> {
        let answer = self.send_cut_then_whole(place, &claiming(Uuid::now_v7())).await?;
        let assignments = answer["assignments"].as_array().context("assignments")?;
        ensure!(assignments.len() == 1, "a claim that was cut off returned {} items", assignments.len());
        self.send_cut_then_whole(place, &ending(id(&assignments[0])?)).await.map(drop)
    }

    /// Sends a request through the proxy that will be cut, then repeats it directly until it is answered twice. All
    /// responses must be the same; only a renewed lease may end later.
    async fn send_cut_then_whole(&mut self, place: Mode, bytes: &[u8]) -> Result<Value> {
        let before = self.proxy.cuts();
        self.proxy.set(place);
        let cut = whole_body(&exchange(self.through, bytes, SILENT).await);
        self.proxy.set(Mode::Pass);
        self.proxy.reset();
        self.cut += usize::from(self.proxy.cuts() > before);
        let (mut answers, mut last): (Vec<Value>, _) = (cut.into_iter().collect(), Vec::new());
        for what in ["an answer", "the same answer again"] {
            let answered = until(what, ANSWER, async || {
                last = exchange(self.direct, bytes, Duration::from_secs(5)).await;
                let received = whole_body(&last);
                answers.extend(received.clone());
                Ok(received.is_some())
            });
            // The last response shows whether the server was slow or rejected the retry.
            answered.await.map_err(|_| no_answer(&last).context(what))?;
        }
        for answer in &mut answers {
            for assignments in answer["assignments"].as_array_mut().into_iter().flatten() {
                assignments["lease_expires_at"].take();
            }
        }
        let same = answers.windows(2).all(|two| two[0] == two[1]);
        self.findings.check(same, || format!("{place:?}: answers differ: {answers:?}"));
        answers.pop().context("an answer")
    }
}
