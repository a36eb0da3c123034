//! A wire of ours between two programs, which can be made slow, narrow, silent or broken while it is in use.
//!
//! One listener leads to one target. What the wire does is one [`Mode`], switched at run time through the handle;
//! resets and half-closes happen at once to whatever is connected. The wire knows bytes, no protocol. It runs in
//! this process because this kernel has no packet scheduler that could do the same.

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

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From who connected to the target.
    There,
    /// From the target to who connected.
    Back,
}

/// How a connection ends at a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Both ends get a reset.
    Reset,
    /// This way ends as if the sender had closed it; the other goes on.
    HalfClose,
    /// Nothing goes either way anymore; a reset comes when the mode is no cut anymore.
    Silence,
}

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Everything goes through.
    Pass,
    /// What comes back is late by this much, so each round trip costs it once.
    Delay(Duration),
    /// Connections are taken, and nothing goes either way. What was held goes on with the next mode.
    BlackHole,
    /// New connections are reset; those there are stay.
    Refuse,
    /// What goes this way is thrown away.
    Lose(Way),
    /// Each connection is cut when so many bytes have gone this way since the mode was set.
    CutAfter(Way, u64, Cut),
    /// So many bytes a second each way, for each connection.
    #[cfg_attr(not(test), expect(dead_code, reason = "no story needs it yet; its test holds it"))]
    Rate(u64),
}

#[derive(Clone, Copy, Debug)]
struct Orders {
    mode: Mode,
    /// Counts changes of the mode: bytes to a cut are counted from the latest.
    since: u64,
    resets: u64,
    half_closes: [u64; 2],
}

/// A running wire. Dropping it stops it and breaks every connection.
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
}

impl Proxy {
    /// A wire from a free port of this machine to the target.
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

    /// The port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Does this from now on.
    pub(crate) fn set(&self, mode: Mode) {
        self.orders.send_modify(|orders| {
            orders.mode = mode;
            orders.since += 1;
        });
    }

    /// Resets every connection there is.
    pub(crate) fn reset(&self) {
        self.orders.send_modify(|orders| orders.resets += 1);
    }

    /// Closes every connection there is, one way.
    #[cfg_attr(not(test), expect(dead_code, reason = "no story needs it yet; its test holds it"))]
    pub(crate) fn half_close(&self, way: Way) {
        self.orders.send_modify(|orders| orders.half_closes[way as usize] += 1);
    }

    /// Connections taken so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.meter.accepted.load(Relaxed)
    }

    /// Bytes that have gone this way so far.
    pub(crate) fn bytes(&self, way: Way) -> u64 {
        self.meter.bytes[way as usize].load(Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How one connection, or one way of it, ended.
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
        let pump =
            |way| Pump { way, begun, orders: orders.clone(), counted: &meter.bytes[way as usize], silent: &silent };
        let mut ordered = orders.clone();
        let there = pump(Way::There).run(near_reads, far_writes);
        let back = pump(Way::Back).run(far_reads, near_writes);
        tokio::select! {
            end = both(there, back) => end,
            // Also when the handle is gone.
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

/// Until both ways have closed, or one was reset.
async fn both(there: impl Future<Output = End>, back: impl Future<Output = End>) -> End {
    let fails = |end: End| if end == End::Closed { Ok(()) } else { Err(()) };
    let ended = tokio::try_join!(async { fails(there.await) }, async { fails(back.await) });
    if ended.is_ok() { End::Closed } else { End::Reset }
}

/// One way of one connection.
struct Pump<'a> {
    way: Way,
    begun: Orders,
    orders: watch::Receiver<Orders>,
    counted: &'a AtomicU64,
    /// Whether a cut has silenced the connection.
    silent: &'a AtomicBool,
}

impl Pump<'_> {
    async fn run(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        // Chunks wait in a queue, so that a late wire is late and not narrow.
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
                    cut = Some(how);
                }
                _ => {}
            }
            gone += chunk.len() as u64;
            self.counted.fetch_add(chunk.len() as u64, Relaxed);
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
        // The end of the stream is held as its bytes are.
        if self.silent.load(Relaxed) {
            return std::future::pending().await;
        }
        if self.orders.wait_for(|orders| orders.mode != Mode::BlackHole).await.is_err() {
            return End::Reset;
        }
        let _ = to.shutdown().await;
        // Who was cut off may go on to send; it goes nowhere.
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
