//! Settings of mail.

use anyhow::{Context as _, ensure};
use lettre::message::Mailbox;
use url::Url;

use engine::settings::Secret;

/// Mail server and sender.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MailSettings {
    /// Mail server: `smtps://user:password@host:465` (TLS), `smtp://user:password@host:587?tls=required` (STARTTLS), or
    /// `smtp://host:25` (plaintext, without a password). Default: no mail is sent
    #[arg(long, env = "TREELINE_SMTP_URL", hide_env_values = true)]
    pub smtp_url: Option<Secret>,

    /// Sender of mail: `treeline@example.com` or `Treeline <treeline@example.com>`. Required with TREELINE_SMTP_URL
    #[arg(long, env = "TREELINE_SMTP_FROM")]
    pub smtp_from: Option<String>,
}

/// Protection of the connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailSecurity {
    Plaintext,
    /// STARTTLS, which the server must offer.
    StartTls,
    Tls,
}

/// Mail server, read from its URL.
pub struct MailServer {
    pub host: String,
    pub port: u16,
    pub security: MailSecurity,
    /// User and password.
    pub credentials: Option<(String, String)>,
    pub from: Mailbox,
}

impl MailSettings {
    /// Reads the settings; `None` if no mail is sent. Errors do not contain the password.
    pub fn server(&self) -> anyhow::Result<Option<MailServer>> {
        let Some(url) = &self.smtp_url else {
            ensure!(self.smtp_from.is_none(), "TREELINE_SMTP_FROM is set without TREELINE_SMTP_URL.");
            return Ok(None);
        };
        let from = self.smtp_from.as_deref().context("TREELINE_SMTP_URL needs TREELINE_SMTP_FROM, the sender.")?;
        let from = from.parse().ok().context("TREELINE_SMTP_FROM is not an address such as treeline@example.com.")?;
        let expected = "TREELINE_SMTP_URL is not a URL such as smtps://user:password@host:465 or \
                        smtp://user:password@host:587?tls=required.";
        let url = Url::parse(url.reveal()).ok().context(expected)?;
        let options: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (security, default_port) = match (url.scheme(), &options[..]) {
            ("smtps", []) => (MailSecurity::Tls, 465),
            ("smtp", [("tls", "required")]) => (MailSecurity::StartTls, 587),
            ("smtp", []) => (MailSecurity::Plaintext, 25),
            _ => anyhow::bail!(expected),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).context(expected)?;
        ensure!(matches!(url.path(), "" | "/") && url.fragment().is_none(), expected);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let credentials = credentials(&url).map_err(|NotText| anyhow::anyhow!(expected))?;
        ensure!(
            security != MailSecurity::Plaintext || credentials.is_none() || is_loopback(&host),
            "TREELINE_SMTP_URL would send its password in plaintext over the network: use smtps://, or smtp:// with \
             ?tls=required."
        );
        let port = url.port().unwrap_or(default_port);
        Ok(Some(MailServer { host, port, security, credentials, from }))
    }
}

/// The credentials of a URL are not text, or lack a password.
struct NotText;

/// User and password of a URL, decoded; `None` if it has neither.
fn credentials(url: &Url) -> Result<Option<(String, String)>, NotText> {
    match url.password() {
        None if url.username().is_empty() => Ok(None),
        None => Err(NotText),
        Some(password) => {
            let user = decoded(url.username()).ok_or(NotText)?;
            Ok(Some((user, decoded(password).ok_or(NotText)?)))
        }
    }
}

/// Text with its percent escapes decoded.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        if *first == b'%'
            && let (Some(high), Some(low)) = (hex(0), hex(1))
        {
            bytes.push((high * 16 + low) as u8);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, from: Option<&str>) -> anyhow::Result<Option<MailServer>> {
        let smtp_url = Some(url.parse().expect("a secret"));
        MailSettings { smtp_url, smtp_from: from.map(str::to_owned) }.server()
    }

    #[test]
    fn the_url_of_a_mail_server_names_its_protection() {
        let found = |url| read(url, Some("Treeline <treeline@example.com>")).expect("valid").expect("a server");
        let tls = found("smtps://ann:p%40ss%25@mail.example");
        assert_eq!((tls.host.as_str(), tls.port, tls.security), ("mail.example", 465, MailSecurity::Tls));
        assert_eq!(tls.credentials, Some(("ann".to_owned(), "p@ss%".to_owned())));
        let start = found("smtp://ann:x@mail.example?tls=required");
        assert_eq!((start.port, start.security), (587, MailSecurity::StartTls));
        let plain = found("smtp://10.0.0.9:2525");
        assert_eq!((plain.port, plain.security, plain.credentials), (2525, MailSecurity::Plaintext, None));
        assert!(found("smtp://ann:x@[::1]:2525").credentials.is_some(), "it does not leave the machine");
        assert!(MailSettings::default().server().expect("valid").is_none());
    }

    #[test]
    fn a_password_in_plaintext_and_other_urls_are_refused_without_showing_it() {
        for bad in [
            "smtp://ann:hunter2@mail.example",
            "smtp://ann:hunter2@mail.example?tls=opportunistic",
            "https://ann:hunter2@mail.example",
            "smtps://ann:hunter2@mail.example/path",
            "smtps://ann@mail.example",
            "hunter2",
        ] {
            let error = format!("{:#}", read(bad, Some("a@example.com")).err().expect(bad));
            assert!(error.contains("TREELINE_SMTP_URL") && !error.contains("hunter2"), "{error}");
        }
        assert!(read("smtps://mail.example", None).is_err() && read("smtps://mail.example", Some("me")).is_err());
        let only_from = MailSettings { smtp_url: None, smtp_from: Some("a@example.com".to_owned()) };
        assert!(only_from.server().is_err());
    }
}
