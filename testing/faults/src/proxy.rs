//! TCP proxy between two programs, which can delay, limit, lose or cut the traffic at run time.
//!
//! One listener forwards to one target. A [`Mode`], switched through the handle, controls all traffic; resets and
//! half-closes affect all open connections at once. The proxy works with bytes, not with a protocol. It runs in this
//! process because the kernel of the test machines has no packet scheduler for this.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the client to the target.
    There,
    /// From the target to the client.
    Back,
}

/// Kind of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Resets both ends.
    Reset,
    /// Closes one direction, as if the sender had; the other stays open.
    HalfClose,
    /// Drops all bytes in both directions, and resets the connection when the mode changes.
    Silence,
}

/// Behavior of the proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Forwards everything.
    Pass,
    /// Delays bytes from the target, so that each round trip takes this much longer.
    Delay(Duration),
    /// Accepts connections and holds all bytes until the next mode.
    BlackHole,
    /// Resets new connections; open ones stay.
    Refuse,
    /// Drops bytes in this direction.
    Lose(Way),
    /// Cuts each connection after this number of bytes in this direction since the mode was set.
    CutAfter(Way, u64, Cut),
    /// Limits each connection to this number of bytes per second in each direction.
    #[cfg_attr(not(test), expect(dead_code, reason = "used only by its test so far"))]
    Rate(u64),
}

#[derive(Clone, Copy, Debug)]
struct Orders {
    mode: Mode,
    /// Number of mode changes. Bytes up to a cut count from the latest change.
    since: u64,
    resets: u64,
    half_closes: [u64; 2],
}

/// A running proxy. Dropping it stops it and closes every connection.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    orders: watch::Sender<Orders>,
    meter: Arc<Meter>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Meter {
    accepted: AtomicU64,
    bytes: [AtomicU64; 2],
    cuts: AtomicU64,
}

impl Proxy {
    /// Starts a proxy from a free local port to the target.
    pub(crate) async fn to(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let first = Orders { mode: Mode::Pass, since: 0, resets: 0, half_closes: [0; 2] };
        let (orders, ordered) = watch::channel(first);
        let meter = Arc::new(Meter::default());
        let counted = Arc::clone(&meter);
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((near, _)) = accepted {
                        counted.accepted.fetch_add(1, Relaxed);
                        open.spawn(join(near, target, ordered.clone(), Arc::clone(&counted)));
                    },
                    Some(_) = open.join_next() => {}
                }
            }
        });
        Ok(Self { port, orders, meter, task })
    }

    /// Port of the listener.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets the mode.
    pub(crate) fn set(&self, mode: Mode) {
        self.orders.send_modify(|orders| {
            orders.mode = mode;
            orders.since += 1;
        });
    }

    /// Resets every open connection.
    pub(crate) fn reset(&self) {
        self.orders.send_modify(|orders| orders.resets += 1);
    }

    /// Closes one direction of every open connection.
    #[cfg_attr(not(test), expect(dead_code, reason = "used only by its test so far"))]
    pub(crate) fn half_close(&self, way: Way) {
        self.orders.send_modify(|orders| orders.half_closes[way as usize] += 1);
    }

    /// Number of connections accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.meter.accepted.load(Relaxed)
    }

    /// Number of connections cut by [`Mode::CutAfter`] so far.
    pub(crate) fn cuts(&self) -> u64 {
        self.meter.cuts.load(Relaxed)
    }

    /// Number of bytes forwarded in this direction so far.
    pub(crate) fn bytes(&self, way: Way) -> u64 {
        self.meter.bytes[way as usize].load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// End of a connection, or of one direction.
#[derive(PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

async fn join(mut near: TcpStream, target: SocketAddr, orders: watch::Receiver<Orders>, meter: Arc<Meter>) {
    let begun = *orders.borrow();
    if begun.mode == Mode::Refuse {
        let _ = near.set_zero_linger();
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        let _ = near.set_zero_linger();
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let end = {
        let silent = AtomicBool::new(false);
        let (near_reads, near_writes) = near.split();
        let (far_reads, far_writes) = far.split();
        let pump = |way| Pump { way, begun, orders: orders.clone(), meter: &meter, silent: &silent };
        let mut ordered = orders.clone();
        let there = pump(Way::There).run(near_reads, far_writes);
        let back = pump(Way::Back).run(far_reads, near_writes);
        tokio::select! {
            end = both(there, back) => end,
            // Resolves also when the handle is gone.
            _ = ordered.wait_for(|now| {
                let goes_on = matches!(now.mode, Mode::CutAfter(..));
                now.resets > begun.resets || silent.load(Relaxed) && !goes_on
            }) => End::Reset,
        }
    };
    if end == End::Reset {
        let _ = (near.set_zero_linger(), far.set_zero_linger());
    }
}

/// Waits until both directions have closed, or one was reset.
async fn both(there: impl Future<Output = End>, back: impl Future<Output = End>) -> End {
    let fails = |end: End| if end == End::Closed { Ok(()) } else { Err(()) };
    let ended = tokio::try_join!(async { fails(there.await) }, async { fails(back.await) });
    if ended.is_ok() { End::Closed } else { End::Reset }
}

/// One direction of one connection.
struct Pump<'a> {
    way: Way,
    begun: Orders,
    orders: watch::Receiver<Orders>,
    meter: &'a Meter,
    /// True if a cut has silenced the connection.
    silent: &'a AtomicBool,
}

impl Pump<'_> {
    async fn run(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        // Chunks wait in a queue, so that a delay does not reduce the throughput.
        let (queue, queued) = mpsc::channel(64);
        let reading = read(from, queue, self.way, self.orders.clone());
        let writing = self.write(queued, to);
        both(reading, writing).await
    }

    async fn write(mut self, mut queued: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: WriteHalf<'_>) -> End {
        let way = self.way as usize;
        let mut closing = self.orders.clone();
        let (mut since, mut gone) = (self.begun.since, 0_u64);
        loop {
            let (due, mut chunk) = tokio::select! {
                next = queued.recv() => match next {
                    Some(next) => next,
                    None => break,
                },
                _ = closing.wait_for(|orders| orders.half_closes[way] > self.begun.half_closes[way]) => break,
            };
            sleep_until(due).await;
            let Ok(now) = self.orders.wait_for(|orders| orders.mode != Mode::BlackHole).await.map(|orders| *orders)
            else {
                return End::Reset;
            };
            if now.since != since {
                (since, gone) = (now.since, 0);
            }
            if self.silent.load(Relaxed) {
                continue;
            }
            let mut cut = None;
            match now.mode {
                Mode::Lose(lost) if lost == self.way => continue,
                Mode::Rate(a_second) => {
                    tokio::time::sleep(Duration::from_secs_f64(chunk.len() as f64 / a_second.max(1) as f64)).await;
                }
                Mode::CutAfter(ends, after, how) if ends == self.way && gone + chunk.len() as u64 > after => {
                    chunk.truncate(after.saturating_sub(gone) as usize);
                    self.meter.cuts.fetch_add(1, Relaxed);
                    cut = Some(how);
                }
                _ => {}
            }
            gone += chunk.len() as u64;
            self.meter.bytes[way].fetch_add(chunk.len() as u64, Relaxed);
            if to.write_all(&chunk).await.is_err() {
                return End::Reset;
            }
            match cut {
                None => {}
                Some(Cut::Reset) => return End::Reset,
                Some(Cut::HalfClose) => break,
                Some(Cut::Silence) => self.silent.store(true, Relaxed),
            }
        }
        // The end of the stream is held like its bytes.
        if self.silent.load(Relaxed) {
            return std::future::pending().await;
        }
        if self.orders.wait_for(|orders| orders.mode != Mode::BlackHole).await.is_err() {
            return End::Reset;
        }
        let _ = to.shutdown().await;
        // The sender may continue to send; its bytes are dropped.
        while queued.recv().await.is_some() {}
        End::Closed
    }
}

async fn read(
    mut from: ReadHalf<'_>,
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
    way: Way,
    orders: watch::Receiver<Orders>,
) -> End {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(0) => return End::Closed,
            Ok(n) => n,
            Err(_) => return End::Reset,
        };
        let late = match orders.borrow().mode {
            Mode::Delay(late) if way == Way::Back => late,
            _ => Duration::ZERO,
        };
        if queue.send((Instant::now() + late, buffer[..n].to_vec())).await.is_err() {
            return End::Closed;
        }
    }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
