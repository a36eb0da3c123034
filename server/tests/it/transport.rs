//! Transport security: the server's own https, and the refusal to serve plaintext on reachable addresses.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::support::{Server, TOKEN};

/// Writes a self-signed certificate for this name to the two files. Returns it for clients to trust.
fn certificate(name: &str, folder: &std::path::Path) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let created = rcgen::generate_simple_self_signed([name.to_owned(), "127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("cert.pem"), created.cert.pem()).expect("written");
    std::fs::write(folder.join("key.pem"), created.signing_key.serialize_pem()).expect("written");
    created
}

fn client(pem: &str) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
    reqwest::Client::builder().tls_certs_only([authority]).build().expect("a client")
}

#[tokio::test]
async fn https_listener_reloads_renewed_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = certificate("localhost", folder.path());
    let server = Server::start_with(|config| {
        config.listen = ([0, 0, 0, 0], 0).into();
        config.transport.tls_cert = Some(folder.path().join("cert.pem"));
        config.transport.tls_key = Some(folder.path().join("key.pem"));
    })
    .await;
    let port = server.running.addr.port();
    assert_eq!(server.running.url(), format!("https://127.0.0.1:{port}"));
    let me = format!("https://127.0.0.1:{port}/api/v1/me");
    let answer = client(&first.cert.pem()).get(&me).bearer_auth(TOKEN).send().await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));
    assert!(answer.headers()["strict-transport-security"].to_str().expect("text").contains("max-age=31536000"));

    // HTTP/1.1 where that is all a client offers, and TLS 1.2.
    let mut roots = RootCertStore::empty();
    roots.add(first.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let older = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("TLS 1.2")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(("127.0.0.1", port)).await.expect("connected");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = TlsConnector::from(Arc::new(older)).connect(name, tcp).await.expect("a handshake");
    tls.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
    let mut printed = String::new();
    let _ = tls.read_to_string(&mut printed).await;
    assert!(printed.starts_with("HTTP/1.1 "), "{printed}");

    // Plain HTTP is no conversation.
    let plain = reqwest::Client::new().get(me.replace("https", "http")).timeout(Duration::from_secs(10)).send().await;
    assert!(plain.is_err());

    let second = certificate("localhost", folder.path());
    let renewed = client(&second.cert.pem());
    let polling = async {
        while renewed.get(&me).bearer_auth(TOKEN).send().await.is_err() {
            crate::support::moment().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), polling).await.expect("it is taken within a minute");
    server.stop().await;
}

/// The certificate does not name the loopback address of a scraper on the same machine.
#[tokio::test]
async fn metrics_listener_is_plain_http_on_loopback_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = certificate("localhost", folder.path());
    for (address, scheme) in [([127_u8, 0, 0, 1], "http"), ([0, 0, 0, 0], "https")] {
        let server = Server::start_with(|config| {
            config.transport.tls_cert = Some(folder.path().join("cert.pem"));
            config.transport.tls_key = Some(folder.path().join("key.pem"));
            config.monitoring.metrics_listen = Some((address, 0).into());
        })
        .await;
        let port = server.running.metrics_addr.expect("an address").port();
        let metrics = format!("{scheme}://127.0.0.1:{port}/metrics");
        let response = client(&authority.cert.pem()).get(metrics).send().await.expect("a response");
        assert_eq!(response.status().as_u16(), 200, "{scheme}");
        server.stop().await;
    }
}

#[tokio::test]
async fn plaintext_on_public_address_is_refused() {
    let postgres = std::env::var("TREELINE_TEST_POSTGRES").expect("the admin URL of a PostgreSQL for tests");
    let without_database =
        PgConnectOptions::from_str(&postgres).expect("its URL").database("treeline_none").to_url_lossy();
    let refusal = async |arguments: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_treeline-server"))
            .args(arguments)
            .env("DATABASE_URL", without_database.as_str())
            .output()
            .await
            .expect("the program runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let open = ["--listen", "0.0.0.0:0"];
    assert!(refusal(&open).await.contains("TREELINE_ALLOW_PLAINTEXT"));
    // These are refused as well, but for the database that is not there. The reason is given once.
    for permission in [["--allow-plaintext", "1"], ["--public-url", "https://treeline.example"]] {
        let refused = refusal(&[&open[..], &permission].concat()).await;
        assert_eq!(refused.matches("\"treeline_none\" does not exist").count(), 1, "{refused}");
    }
}

#[tokio::test]
async fn health_command_reports_readiness() {
    let health = async |arguments: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_treeline-server"))
            .args(arguments)
            .arg("health")
            .output()
            .await
            .expect("the program runs");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(printed.lines().count(), usize::from(!output.status.success()), "{printed}");
        (output.status.code(), printed)
    };
    let folder = tempfile::tempdir().expect("a folder");
    certificate("treeline.example", folder.path());
    let server = Server::start_with(|config| {
        config.listen = ([0, 0, 0, 0], 0).into();
        config.transport.tls_cert = Some(folder.path().join("cert.pem"));
        config.transport.tls_key = Some(folder.path().join("key.pem"));
    })
    .await;
    let address = format!("0.0.0.0:{}", server.running.addr.port());
    let files = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    let tls = ["--listen", &address, "--tls-cert", &files[0], "--tls-key", &files[1]];
    assert_eq!(health(&tls).await, (Some(0), String::new()));
    server.stop().await;
    let (code, printed) = health(&tls).await;
    assert_eq!(code, Some(1));
    assert!(printed.contains("no server answers at 127.0.0.1:"), "{printed}");
    let (code, printed) = health(&["--listen", "127.0.0.1:0"]).await;
    assert_eq!(code, Some(1));
    assert!(printed.contains("port 0"), "{printed}");
}
