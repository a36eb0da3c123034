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

use anyhow::{Context as _, Result};
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
    raw::{quantile, until},
    receiver,
    receiver::{Book, SECRET},
    scene::Scene,
    stage::House,
    told::Told,
};

/// Behaviors of a receiver at the first attempt.
const MANNERS: [&str; 9] = ["well", "hangs", "500", "302", "410", "429", "breaks", "endless", "bomb"];
/// Maximum number of bytes that the server reads of one response, including socket buffers.
const MOST_READ: u64 = 1 << 20;

struct Heard {
    book: Book,
    /// Id and time of every attempt, by path.
    posts: Mutex<BTreeMap<String, Vec<(String, Instant)>>>,
    /// Bytes sent of endless responses.
    poured: AtomicU64,
    stolen: AtomicU64,
}

pub(crate) async fn play(house: &House, each: usize) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let ledger = scene.folder().join("receiver");
    let book = Book::create(&ledger)?;
    let heard = Heard { book, posts: Mutex::default(), poured: AtomicU64::new(0), stolen: AtomicU64::new(0) };
    let heard = Arc::new(heard);
    // Each receiver has its own port, so that one cannot delay the others.
    let mut receiving = JoinSet::new();
    let mut ports = BTreeMap::new();
    for manner in MANNERS {
        ports.insert(manner, listen(&mut receiving, &heard)?);
    }

    let quick = [("TREELINE_CALLBACK_RETRY_SECONDS", "0.3"), ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1")];
    let mut served = scene.serve(&quick).await?;
    let api = &served.api;
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
    let all_heard = |paths: &[(String, Instant)]| {
        let posts = heard.posts.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter().all(|(path, _)| posts.contains_key(path))
    };
    let delays = |paths: &[(String, Instant)]| -> Vec<Duration> {
        let posts = heard.posts.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter().filter_map(|(path, begun)| Some(posts.get(path)?.first()?.1.duration_since(*begun))).collect()
    };

    let mut told =
        Told::new(format!("{each} callbacks to each of {} receivers: {}", MANNERS.len(), MANNERS.join(", ")));
    // First only the receivers that behave; then all of them together.
    let mut alone = Vec::new();
    for n in 0..each {
        alone.push(tree(format!("/well/alone-{n}")).await?);
    }
    told.must(until("callbacks alone", Duration::from_secs(20), async || Ok(all_heard(&alone))).await);
    let mut paths = Vec::new();
    for n in 0..each {
        for manner in MANNERS {
            paths.push(tree(format!("/{manner}/{n}")).await?);
        }
    }
    told.acknowledged = (alone.len() + paths.len()) as u64;
    let open = "select count(*) from delivery where state = 1";
    let settled = until("every callback is settled", Duration::from_secs(40), async || {
        Ok(all_heard(&paths) && scene.number(open).await? == 0)
    });
    told.must(settled.await);

    let well: Vec<_> = paths.iter().filter(|(path, _)| path.starts_with("/well/")).cloned().collect();
    let (before, beside) = (quantile(&mut delays(&alone), 0.99), quantile(&mut delays(&well), 0.99));
    told.note(format!("p99 of those that behave: {} ms alone, {} ms beside", before.as_millis(), beside.as_millis()));
    // The background task that posts polls a few times per second; one poll more or less is not a delay by others.
    told.timed(beside < before.mul_f64(1.2) + Duration::from_millis(300), || {
        format!("{beside:?} beside others, {before:?} alone")
    });
    told.zero("redirects followed", heard.stolen.load(Relaxed));
    let poured = heard.poured.load(Relaxed);
    let endless = each as u64 * 2;
    told.note(format!("{} KiB read of an endless answer", poured / endless / 1024));
    told.check(poured / endless < MOST_READ, || format!("{poured} bytes were read of {endless} endless answers"));
    let delivered = scene.number("select count(*) from delivery where state = 2").await? as u64;
    let failed = scene.number("select count(*) from delivery where state = 3").await? as u64;
    told.lost = told.acknowledged - delivered - failed;
    let trees = trees.into_inner().unwrap_or_else(PoisonError::into_inner);
    told.callbacks = checker::judge_callbacks(&scene.pool, trees, receiver::read(&ledger)?).await?;
    told.check(failed == each as u64, || format!("{failed} have failed, not the {each} with a 410"));
    judge(&mut told, &heard, &paths)?;
    receiving.abort_all();
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}

/// Starts a receiver. Returns its port.
fn listen(receiving: &mut JoinSet<std::io::Result<()>>, heard: &Arc<Heard>) -> Result<u16> {
    let socket = TcpSocket::new_v4()?;
    // Accepted connections inherit the small buffer, so that sockets hold few bytes.
    socket.set_send_buffer_size(16 * 1024)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(1024)?;
    let port = listener.local_addr()?.port();
    let router = Router::new().fallback(receive).with_state(Arc::clone(heard));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    receiving.spawn(async move { axum::serve(listener, service).await });
    Ok(port)
}

/// Checks the number of attempts, their ids, and the pauses between them.
fn judge(told: &mut Told, heard: &Heard, paths: &[(String, Instant)]) -> Result<()> {
    let posts = heard.posts.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, _) in paths {
        let tries = posts.get(path).context("a callback")?;
        let manner = path.split('/').nth(1).unwrap_or_default();
        // A response with a success status counts, whatever its body.
        let expected = if ["well", "410", "endless", "bomb"].contains(&manner) { 1 } else { 2 };
        told.check(tries.len() == expected, || format!("{path}: {} tries, not {expected}", tries.len()));
        told.check(tries.iter().all(|one| one.0 == tries[0].0), || format!("{path}: another id at another try"));
        // The pause of 0.3 s and up to half as much more, the poll interval, and the timeout of the response.
        let wait = tries.get(1).map(|second| second.1 - tries[0].1);
        if let Some(wait) = wait.filter(|_| ["500", "302", "breaks", "hangs"].contains(&manner)) {
            told.check(wait >= Duration::from_millis(290), || format!("{path}: tried again after {wait:?} only"));
            // Callbacks to the hanging receiver wait for each other.
            let soon = manner == "hangs" || wait <= Duration::from_secs(5);
            told.timed(soon, || format!("{path}: tried again after {wait:?}"));
        }
        let asked = manner == "429" && tries.len() > 1 && tries[1].1 - tries[0].1 < Duration::from_secs(1);
        told.check(!asked, || format!("{path}: asked for two seconds and was tried again sooner"));
    }
    Ok(())
}

async fn receive(
    State(heard): State<Arc<Heard>>,
    OriginalUri(uri): OriginalUri,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Infallible> {
    let path = uri.path().to_owned();
    if path == "/stolen" {
        heard.stolen.fetch_add(1, Relaxed);
    }
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let tries = {
        let mut posts = heard.posts.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = posts.entry(path.clone()).or_default();
        tries.push((id, Instant::now()));
        tries.len()
    };
    let manner = path.split('/').nth(1).unwrap_or_default();
    let status = match (manner, tries) {
        // Never answered.
        ("hangs", 1) => 0,
        ("500" | "breaks", 1) => 500,
        ("302", 1) => 302,
        ("410", _) => 410,
        ("429", 1) => 429,
        _ => 200,
    };
    if heard.book.write(from, &headers, &body, status).is_err() {
        return std::future::pending().await;
    }
    let answer = |headers: &[(&str, &str)], body: Body| {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Ok(response.body(body).unwrap_or_default())
    };
    let pour = |zeros: &'static [u8]| {
        let heard = Arc::clone(&heard);
        let parts = stream::repeat(Bytes::from_static(zeros)).inspect(move |part| {
            heard.poured.fetch_add(part.len() as u64, Relaxed);
        });
        Body::from_stream(parts.map(Ok::<_, Infallible>))
    };
    match (manner, tries) {
        ("hangs", 1) => std::future::pending().await,
        ("500", 1) => answer(&[], Body::from("no")),
        ("302", 1) => answer(&[("location", "/stolen")], Body::empty()),
        ("410", _) => answer(&[], Body::empty()),
        ("429", 1) => answer(&[("retry-after", "2")], Body::empty()),
        ("breaks", 1) => {
            let parts = [Ok(Bytes::from_static(b"half")), Err(std::io::Error::other("cut off"))];
            answer(&[], Body::from_stream(stream::iter(parts)))
        }
        ("endless", _) => answer(&[], pour(&[b' '; 4096])),
        ("bomb", _) => answer(&[("content-encoding", "gzip")], pour(&[0; 4096])),
        _ => answer(&[], Body::from(json!({"thank": "you"}).to_string())),
    }
}
