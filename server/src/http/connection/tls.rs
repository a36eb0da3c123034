//! TLS of the server itself: certificate and key from files, TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1 by ALPN.
//!
//! Changed files are read again, so a renewed certificate needs no restart. An invalid one is logged, and the old one
//! stays in use. Without the files the server uses plain HTTP.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, ensure};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

/// Interval at which the files are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Current certificate and key.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    now: Arc<RwLock<(Arc<ServerConfig>, Stamp)>>,
}

/// Modification times of the two files.
type Stamp = (Option<SystemTime>, Option<SystemTime>);

impl Tls {
    /// Reads both files.
    pub fn open(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let modified = stamp(certificate, key);
        let config = read(certificate, key)?;
        Ok(Self { certificate: certificate.into(), key: key.into(), now: Arc::new(RwLock::new((config, modified))) })
    }

    /// Performs the handshake within the timeout.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        handshake_timeout: Duration,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner).0);
        tokio::time::timeout(handshake_timeout, TlsAcceptor::from(config).accept(stream)).await?
    }

    /// Reads the files again if they have changed. Returns true if they had.
    pub fn reload_if_changed(&self) -> anyhow::Result<bool> {
        let modified = stamp(&self.certificate, &self.key);
        if self.now.read().unwrap_or_else(PoisonError::into_inner).1 == modified {
            return Ok(false);
        }
        let config = read(&self.certificate, &self.key)?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = (config, modified);
        Ok(true)
    }

    /// Checks the files at intervals until stopped.
    pub async fn watch(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            match self.reload_if_changed() {
                Ok(true) => tracing::info!("TLS certificate reloaded"),
                Ok(false) => {}
                // Possibly only one of the two files is written yet.
                Err(error) => tracing::warn!(error = format!("{error:#}"), "TLS certificate reload failed"),
            }
        }
    }
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    let written = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified()).ok();
    (written(certificate), written(key))
}

fn read(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificate {}", certificate.display()))?;
    ensure!(!chain.is_empty(), "there is no certificate in {}", certificate.display());
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("cannot read the key {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and the key do not fit together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
