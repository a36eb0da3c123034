//! F40: receivers of callbacks that misbehave in different ways at the first attempt, next to others that do not.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, OriginalUri, State},
    http::{HeaderMap, Response},
};
use domain::id::Uuid;
use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio::{net::TcpSocket, task::JoinSet};

use crate::{
    checker,
    findings::Findings,
    fixture::RunContext,
    proxy_fixture::ProxyFixture,
    raw::{quantile, until},
    receiver,
    receiver::{CallbackLedger, SECRET},
};

/// Behaviors of a receiver at the first attempt.
const BEHAVIORS: [&str; 9] = ["well", "hangs", "500", "302", "410", "429", "breaks", "endless", "bomb"];
/// Maximum number of bytes that the server reads of one response, including socket buffers.
const MOST_READ: u64 = 1 << 20;

struct ReceiverLog {
    callback_ledger: CallbackLedger,
    /// Id and time of every attempt, by path.
    posts: Mutex<BTreeMap<String, Vec<(String, Instant)>>>,
    /// Bytes sent of endless responses.
    streamed_bytes: AtomicU64,
    redirects_followed: AtomicU64,
}

pub(crate) async fn run(context: &RunContext, each: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let ledger = proxy_fixture.folder().join("receiver");
    let callback_ledger = CallbackLedger::create(&ledger)?;
    let log = ReceiverLog {
        callback_ledger,
        posts: Mutex::default(),
        streamed_bytes: AtomicU64::new(0),
        redirects_followed: AtomicU64::new(0),
    };
    let log = Arc::new(log);
    // Each receiver has its own port, so that one cannot delay the others.
    let mut receiving = JoinSet::new();
    let mut ports = BTreeMap::new();
    for behavior in BEHAVIORS {
        ports.insert(behavior, listen(&mut receiving, &log)?);
    }

    let quick = [("TREELINE_CALLBACK_RETRY_SECONDS", "0.3"), ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1")];
    let mut running = proxy_fixture.serve(&quick).await?;
    let api = &running.api;
    api.put_type("told", &json!({})).await?;
    let trees = Mutex::new(Vec::new());
    let tree = async |path: String| {
        let port = ports[path.split('/').nth(1).unwrap_or_default()];
        let url = format!("http://127.0.0.1:{port}{path}");
        let target = json!({"url": url, "secret": SECRET});
        let tree = json!({"type": "told", "name": path, "sealed": true, "on_completed": target});
        let begun = Instant::now();
        let id: Uuid = api.tree(&tree).await?.parse()?;
        trees.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), id));
        anyhow::Ok((path, begun))
    };
    let all_received = |paths: &[(String, Instant)]| {
        let posts = log.posts.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter().all(|(path, _)| posts.contains_key(path))
    };
    let delays = |paths: &[(String, Instant)]| -> Vec<Duration> {
        let posts = log.posts.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter().filter_map(|(path, begun)| Some(posts.get(path)?.first()?.1.duration_since(*begun))).collect()
    };

    let mut findings =
        Findings::new(format!("{each} callbacks to each of {} receivers: {}", BEHAVIORS.len(), BEHAVIORS.join(", ")));
    // First only the receivers that behave; then all of them together.
    let mut alone = Vec::new();
    for n in 0..each {
        alone.push(tree(format!("/well/alone-{n}")).await?);
    }
    findings.expect_ok(until("callbacks alone", Duration::from_secs(20), async || Ok(all_received(&alone))).await);
    let mut paths = Vec::new();
    for n in 0..each {
        for behavior in BEHAVIORS {
            paths.push(tree(format!("/{behavior}/{n}")).await?);
        }
    }
    findings.acknowledged = (alone.len() + paths.len()) as u64;
    let open = "select count(*) from delivery where state = 1";
    let complete = until("every callback is settled", Duration::from_secs(40), async || {
        Ok(all_received(&paths) && proxy_fixture.number(open).await? == 0)
    });
    findings.expect_ok(complete.await);

    let well: Vec<_> = paths.iter().filter(|(path, _)| path.starts_with("/well/")).cloned().collect();
    let (before, beside) = (quantile(&mut delays(&alone), 0.99), quantile(&mut delays(&well), 0.99));
    findings.note(format!(
        "p99 of correct receivers: {} ms alone, {} ms with the others",
        before.as_millis(),
        beside.as_millis()
    ));
    // The background task that posts polls a few times per second; one poll more or less is not a delay by others.
    findings.check_fast(beside < before.mul_f64(1.2) + Duration::from_millis(300), || {
        format!("{beside:?} with the others, {before:?} alone")
    });
    findings.expect_zero("redirects followed", log.redirects_followed.load(Relaxed));
    let streamed_bytes = log.streamed_bytes.load(Relaxed);
    let endless = each as u64 * 2;
    findings.note(format!("{} KiB read of an endless response", streamed_bytes / endless / 1024));
    findings.check(streamed_bytes / endless < MOST_READ, || {
        format!("{streamed_bytes} bytes were read of {endless} endless responses")
    });
    let delivered = proxy_fixture.number("select count(*) from delivery where state = 2").await? as u64;
    let failed = proxy_fixture.number("select count(*) from delivery where state = 3").await? as u64;
    findings.lost = findings.acknowledged - delivered - failed;
    let trees = trees.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.callbacks = checker::check_callbacks(&proxy_fixture.pool, trees, receiver::read(&ledger)?).await?;
    findings.check(failed == each as u64, || format!("{failed} have failed, not the {each} with a 410"));
    check(&mut findings, &log, &paths);
    receiving.abort_all();
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Starts a receiver. Returns its port.
fn listen(receiving: &mut JoinSet<std::io::Result<()>>, log: &Arc<ReceiverLog>) -> Result<u16> {
    let socket = TcpSocket::new_v4()?;
    // Accepted connections inherit the small buffer, so that sockets hold few bytes.
    socket.set_send_buffer_size(16 * 1024)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(1024)?;
    let port = listener.local_addr()?.port();
    let router = Router::new().fallback(receive).with_state(Arc::clone(log));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    receiving.spawn(async move { axum::serve(listener, service).await });
    Ok(port)
}

/// Checks the number of attempts, their ids, and the pauses between them.
fn check(findings: &mut Findings, log: &ReceiverLog, paths: &[(String, Instant)]) {
    let posts = log.posts.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, _) in paths {
        // A callback that never came is lost, and counted already.
        let Some(tries) = posts.get(path) else { continue };
        let behavior = path.split('/').nth(1).unwrap_or_default();
        // A response with a success status counts, whatever its body.
        let expected = if ["well", "410", "endless", "bomb"].contains(&behavior) { 1 } else { 2 };
        let attempts = || format!("{path}: {} attempts, not {expected}", tries.len());
        findings.check(tries.len() >= expected, attempts);
        // A receiver on a machine that stands still answers too late.
        findings.check_in_time(tries.len() <= expected, attempts);
        findings.check(tries.iter().all(|one| one.0 == tries[0].0), || format!("{path}: a retry had another id"));
        // The pause of 0.3 s and up to half as much more, the poll interval, and the timeout of the response.
        let wait = tries.get(1).map(|second| second.1 - tries[0].1);
        if let Some(wait) = wait.filter(|_| ["500", "302", "breaks", "hangs"].contains(&behavior)) {
            findings.check(wait >= Duration::from_millis(290), || format!("{path}: retried after only {wait:?}"));
            // Callbacks to the hanging receiver wait for each other.
            let soon = behavior == "hangs" || wait <= Duration::from_secs(5);
            findings.check_fast(soon, || format!("{path}: retried after {wait:?}"));
        }
        let ignored_retry_after =
            behavior == "429" && tries.len() > 1 && tries[1].1 - tries[0].1 < Duration::from_secs(1);
        findings.check(!ignored_retry_after, || format!("{path}: asked for two seconds, but the retry came sooner"));
    }
}

async fn receive(
    State(log): State<Arc<ReceiverLog>>,
    OriginalUri(uri): OriginalUri,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Infallible> {
    let path = uri.path().to_owned();
    if path == "/stolen" {
        log.redirects_followed.fetch_add(1, Relaxed);
    }
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let tries = {
        let mut posts = log.posts.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = posts.entry(path.clone()).or_default();
        tries.push((id, Instant::now()));
        tries.len()
    };
    let behavior = path.split('/').nth(1).unwrap_or_default();
    let status = match (behavior, tries) {
        // Never answered.
        ("hangs", 1) => 0,
        ("500" | "breaks", 1) => 500,
        ("302", 1) => 302,
        ("410", _) => 410,
        ("429", 1) => 429,
        _ => 200,
    };
    if log.callback_ledger.write(from, &headers, &body, status).is_err() {
        return std::future::pending().await;
    }
    let answer = |headers: &[(&str, &str)], body: Body| {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Ok(response.body(body).unwrap_or_default())
    };
    let endless_body = |zeros: &'static [u8]| {
        let log = Arc::clone(&log);
        let parts = stream::repeat(Bytes::from_static(zeros)).inspect(move |part| {
            log.streamed_bytes.fetch_add(part.len() as u64, Relaxed);
        });
        Body::from_stream(parts.map(Ok::<_, Infallible>))
    };
    match (behavior, tries) {
        ("hangs", 1) => std::future::pending().await,
        ("500", 1) => answer(&[], Body::from("no")),
        ("302", 1) => answer(&[("location", "/stolen")], Body::empty()),
        ("410", _) => answer(&[], Body::empty()),
        ("429", 1) => answer(&[("retry-after", "2")], Body::empty()),
        ("breaks", 1) => {
            let parts = [Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("cut off"))];
            answer(&[], Body::from_stream(stream::iter(parts)))
        }
        ("endless", _) => answer(&[], endless_body(&[b' '; 4096])),
        ("bomb", _) => answer(&[("content-encoding", "gzip")], endless_body(&[0; 4096])),
        _ => answer(&[], Body::from(json!({"thank": "you"}).to_string())),
    }
}
