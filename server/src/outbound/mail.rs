//! Mail by SMTP, through the server of `TREELINE_SMTP_URL`.
//!
//! A message is plain text to one person. Its Message-ID stays the same on every try, so that a mailbox recognizes a
//! repeated one. The password must not be logged.

use std::{error::Error as StdError, time::Duration};

use lettre::{
    Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{
        Mailbox,
        header::{ContentType, Header, HeaderName, HeaderValue},
    },
    transport::smtp::{
        authentication::Credentials,
        client::{Tls, TlsParameters},
        extension::ClientId,
    },
};

use super::excerpt;
use crate::config::mail::{MailSecurity, MailServer};

/// Replies after which another try is useless: the mailbox does not exist, or refuses.
const FINAL_REPLIES: [u16; 3] = [550, 551, 553];

/// Characters of a reply that are stored.
const MAX_STORED_CHARS: usize = 1_000;

/// Sends mail.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Mail {
    pub to: Address,
    pub subject: String,
    pub text: String,
    /// Unique name of the message, without the domain.
    pub id: String,
    /// Name of the message that this one follows.
    pub follows: Option<String>,
}

/// Failure of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailFault {
    pub detail: String,
    /// Another try is useless.
    pub is_final: bool,
}

/// Marks mail of programs, so that nobody's absence is answered to it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Mailer {
    /// Opens no connection yet. `timeout` limits each wait for the server.
    pub fn new(server: MailServer, timeout: Duration) -> anyhow::Result<Self> {
        let parameters = || TlsParameters::new(server.host.clone());
        let tls = match server.security {
            MailSecurity::Plaintext => Tls::None,
            MailSecurity::StartTls => Tls::Required(parameters()?),
            MailSecurity::Tls => Tls::Wrapper(parameters()?),
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server.host.clone())
            .port(server.port)
            .tls(tls)
            .timeout(Some(timeout))
            .hello_name(ClientId::Domain(server.from.email.domain().to_owned()));
        if let Some((user, password)) = server.credentials {
            transport = transport.credentials(Credentials::new(user, password));
        }
        Ok(Self { transport: transport.build(), from: server.from })
    }

    /// Sends a message; it is delivered when the server has taken it.
    pub async fn send(&self, mail: Mail) -> Result<(), MailFault> {
        let broken = |detail: String| MailFault { detail, is_final: false };
        let named = |id: &str| format!("<{id}@{}>", self.from.email.domain());
        let mut message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, mail.to))
            .subject(mail.subject)
            .message_id(Some(named(&mail.id)))
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN);
        if let Some(follows) = &mail.follows {
            message = message.in_reply_to(named(follows)).references(named(follows));
        }
        let message = message.body(mail.text).map_err(|error| broken(error.to_string()))?;
        match self.transport.send(message).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let status = error.status().map(u16::from);
                let is_final = status.is_some_and(|status| FINAL_REPLIES.contains(&status));
                Err(MailFault { detail: excerpt(error.to_string().as_bytes(), MAX_STORED_CHARS), is_final })
            }
        }
    }
}
