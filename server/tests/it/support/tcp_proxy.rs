//! Proxy between a server and its database that a test can cut and restore, whose far end can vanish, and that can drop
//! one connection silently: for the server, only the database is down.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Notify, watch},
    task::JoinHandle,
};

/// Port that forwards to another while it is not cut.
pub(crate) struct TcpProxy {
    pub(crate) port: u16,
    target: SocketAddr,
    connected: watch::Sender<bool>,
    /// Changes when the far end vanishes.
    vanished: watch::Sender<()>,
    loses_commits: Arc<AtomicBool>,
    /// Local port of the connection to the database that hangs; 0: none.
    hung: watch::Sender<u16>,
    /// Told when something is sent to a far end that is gone.
    unanswered: Arc<Notify>,
    accepting: Mutex<JoinHandle<()>>,
}

impl TcpProxy {
    /// Creates a wire to this address.
    pub(crate) async fn forward_to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (connected, vanished) = (watch::channel(true).0, watch::channel(()).0);
        let mut proxy = Self {
            port,
            target,
            connected,
            vanished,
            loses_commits: Arc::default(),
            hung: watch::channel(0).0,
            unanswered: Arc::default(),
            accepting: Mutex::new(tokio::spawn(async {})),
        };
        proxy.accepting = Mutex::new(accept(listener, &proxy));
        proxy
    }

    /// Closes all connections and the port, as a database that is not running. Returns what holds the port meanwhile.
    pub(crate) async fn close_port(&self) -> TcpSocket {
        self.cut();
        let accepting = std::mem::replace(&mut *self.accepting.lock().expect("a lock"), tokio::spawn(async {}));
        accepting.abort();
        let _ = accepting.await;
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option");
        socket.bind(([127, 0, 0, 1], self.port).into()).expect("the port is still free");
        socket
    }

    /// Opens the port again.
    pub(crate) fn open_port(&self, socket: TcpSocket) {
        self.restore();
        let listener = socket.listen(1_024).expect("it listens");
        let accepting = accept(listener, self);
        *self.accepting.lock().expect("a lock") = accepting;
    }

    /// Closes all connections, and refuses new ones.
    pub(crate) fn cut(&self) {
        self.connected.send_replace(false);
    }

    /// The host of the open connections vanishes without closing them; new connections reach its successor.
    pub(crate) fn vanish(&self) {
        self.vanished.send_replace(());
    }

    /// The connection that the database knows by this port hangs. Returns when something has been sent on it.
    pub(crate) fn hang(&self, port: u16) -> impl Future<Output = ()> {
        self.hung.send_replace(port);
        Arc::clone(&self.unanswered).notified_owned()
    }

    /// From now on, or no longer: commits arrive, and instead of their answers the connection ends.
    pub(crate) fn lose_commits(&self, loses: bool) {
        self.loses_commits.store(loses, Ordering::SeqCst);
    }

    pub(crate) fn restore(&self) {
        self.connected.send_replace(true);
    }
}

/// Forwards every connection until the proxy is cut or the far end vanishes.
fn accept(listener: TcpListener, proxy: &TcpProxy) -> JoinHandle<()> {
    let (target, unanswered) = (proxy.target, Arc::clone(&proxy.unanswered));
    let (state, vanishes, hangs) = (proxy.connected.clone(), proxy.vanished.clone(), proxy.hung.clone());
    let loses = Arc::clone(&proxy.loses_commits);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (mut state, mut vanishes, mut hangs) = (state.subscribe(), vanishes.subscribe(), hangs.subscribe());
            let (loses, unanswered) = (Arc::clone(&loses), Arc::clone(&unanswered));
            tokio::spawn(async move {
                if !*state.borrow() {
                    return;
                }
                let Ok(mut far) = TcpStream::connect(target).await else { return };
                let port = far.local_addr().map_or(0, |address| address.port());
                let is_gone = tokio::select! {
                    // Nothing that was sent after the change may still arrive.
                    biased;
                    _ = vanishes.changed() => true,
                    _ = hangs.wait_for(|hung| *hung == port) => true,
                    _ = state.wait_for(|connected| !connected) => false,
                    () = forward(&mut near, &mut far, &loses) => false,
                };
                drop(far);
                if is_gone {
                    let mut bytes = vec![0; 65_536];
                    while near.read(&mut bytes).await.is_ok_and(|n| n > 0) {
                        unanswered.notify_one();
                    }
                }
            });
        }
    })
}

/// Forwards in both directions until one side closes, or a commit was sent whose answer is to be lost.
async fn forward(near: &mut TcpStream, far: &mut TcpStream, loses_commits: &AtomicBool) {
    let (mut requests, mut back) = near.split();
    let (mut answers, mut on) = far.split();
    let sent = async {
        let mut bytes = vec![0; 65_536];
        loop {
            let n = requests.read(&mut bytes).await.unwrap_or(0);
            if n == 0 || on.write_all(&bytes[..n]).await.is_err() {
                return false;
            }
            if loses_commits.load(Ordering::SeqCst) && bytes[..n].windows(6).any(|word| word == b"COMMIT") {
                return true;
            }
        }
    };
    let is_lost = tokio::select! {
        is_lost = sent => is_lost,
        _ = tokio::io::copy(&mut answers, &mut back) => false,
    };
    if is_lost {
        let _ = far.readable().await;
    }
}
