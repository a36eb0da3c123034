//! Transport security: the server's own TLS, and exceptions for plaintext.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::ensure;

use super::PublicUrl;

/// Settings of transport security.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Transport {
    /// Certificate chain in PEM; with it and its key the server speaks https. Reloaded when it changes
    #[arg(long, env = "TREELINE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate in PEM
    #[arg(long, env = "TREELINE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// 1: allows plain HTTP on an address that other machines can reach
    #[arg(long, env = "TREELINE_ALLOW_PLAINTEXT", default_value = "0", action = clap::ArgAction::Set,
          value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_plaintext: bool,
}

impl Transport {
    /// Returns true if the server speaks https itself.
    pub fn is_tls(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Rejects plain HTTP on a reachable address, unless the public URL is https or plaintext is allowed.
    pub fn check(&self, listen: SocketAddr, public_url: Option<&PublicUrl>) -> anyhow::Result<()> {
        ensure!(
            self.tls_cert.is_some() == self.tls_key.is_some(),
            "TREELINE_TLS_CERT and TREELINE_TLS_KEY go together."
        );
        if let Some(url) = public_url {
            ensure!(
                !self.is_tls() || url.is_secure(),
                "TREELINE_PUBLIC_URL is http:// although the server speaks https: write https://."
            );
        }
        let is_safe = self.is_tls()
            || listen.ip().to_canonical().is_loopback()
            || public_url.is_some_and(PublicUrl::is_secure)
            || self.allow_plaintext;
        ensure!(
            is_safe,
            "Listening on {listen} would send passwords, cookies and tokens in plaintext over the network. Set \
             TREELINE_TLS_CERT and TREELINE_TLS_KEY; or, behind a proxy that speaks https, TREELINE_PUBLIC_URL=https://…; \
             or TREELINE_ALLOW_PLAINTEXT=1 where the network is trusted."
        );
        Ok(())
    }
}

/// Warning about a URL that leads, or may lead, over the network in plaintext; `None` if it is protected or local.
pub fn plaintext_warning(variable: &str, url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let query = |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned).or_else(|| query("host"))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    let is_local =
        host.starts_with('/') || host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback());
    let protected = match url.scheme() {
        "postgres" | "postgresql" => {
            query("sslmode").is_some_and(|mode| matches!(&*mode, "require" | "verify-ca" | "verify-full"))
        }
        "amqps" | "https" | "smtps" => true,
        "smtp" => query("tls").is_some_and(|tls| tls == "required"),
        _ => false,
    };
    (!is_local && !protected).then(|| match url.scheme() {
        "postgres" | "postgresql" => format!(
            "{variable} leads to {host} and may go in plaintext: add sslmode=verify-full (and sslrootcert where the \
             authority is your own)"
        ),
        "smtp" => format!("{variable} leads to {host} in plaintext: use smtps://, or smtp:// with ?tls=required"),
        _ => format!("{variable} leads to {host} in plaintext: use amqps://"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(transport: &Transport, listen: &str, url: Option<&str>) -> bool {
        let url: Option<PublicUrl> = url.map(|url| url.parse().expect("a URL"));
        transport.check(listen.parse().expect("an address"), url.as_ref()).is_ok()
    }

    #[test]
    fn plaintext_is_loopback_only_unless_allowed() {
        let plain = Transport::default();
        assert!(check(&plain, "127.0.0.1:3000", None) && check(&plain, "[::1]:3000", None));
        for open in ["0.0.0.0:3000", "10.0.0.4:3000", "203.0.113.4:80", "[::]:3000"] {
            assert!(!check(&plain, open, None), "{open}");
            assert!(!check(&plain, open, Some("http://treeline.example")), "{open}");
            assert!(check(&plain, open, Some("https://treeline.example")), "behind a proxy");
            assert!(check(&Transport { allow_plaintext: true, ..plain.clone() }, open, None));
        }
        let tls = Transport { tls_cert: Some("a".into()), tls_key: Some("b".into()), allow_plaintext: false };
        assert!(check(&tls, "0.0.0.0:443", None));
        assert!(!check(&tls, "0.0.0.0:443", Some("http://treeline.example")));
        assert!(!check(&Transport { tls_key: None, ..tls }, "127.0.0.1:443", None));
    }

    #[test]
    fn plaintext_to_the_database_and_the_broker_is_named() {
        for quiet in [
            "postgres://u:p@localhost/t",
            "postgres://u:p@127.0.0.1:5432/t",
            "postgres:///t?host=/var/run/postgresql",
            "postgres://u:p@db.example/t?sslmode=verify-full",
            "amqps://u:p@mq.example",
            "amqp://guest@[::1]:5672",
        ] {
            assert_eq!(plaintext_warning("X", quiet), None, "{quiet}");
        }
        for loud in
            ["postgres://u:hunter2@db.example/t", "postgres://db/t?sslmode=prefer", "amqp://u:hunter2@mq.example"]
        {
            let warning = plaintext_warning("X", loud).expect("a warning");
            assert!(!warning.contains("hunter2"), "{warning}");
        }
    }
}
