//! Proxy between a server and its database that a test can cut and restore: for the server, only the database is down.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Port that forwards to another while it is not cut.
pub(crate) struct TcpProxy {
    pub(crate) port: u16,
    connected: Arc<watch::Sender<bool>>,
}

impl TcpProxy {
    /// Creates a wire to this address.
    pub(crate) async fn forward_to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let connected = Arc::new(watch::channel(true).0);
        let state = Arc::clone(&connected);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut state = state.subscribe();
                tokio::spawn(async move {
                    if !*state.borrow() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = state.wait_for(|connected| !connected) => {}
                    }
                });
            }
        });
        Self { port, connected }
    }

    /// Closes all connections, and refuses new ones.
    pub(crate) fn cut(&self) {
        self.connected.send_replace(false);
    }

    pub(crate) fn restore(&self) {
        self.connected.send_replace(true);
    }
}
