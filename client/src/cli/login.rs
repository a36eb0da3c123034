//! `treeline login` and `treeline context`: adds a server, lists the servers, and chooses one.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};
use client::Client;
use domain::job::OwnerKind;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Serialize;

use super::{
    Exit,
    contexts::{self, Contexts, DEFAULT_URL, Server},
    show,
};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Name of the context; by default the host of the server.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ContextOptions {
    #[command(subcommand)]
    command: Option<ContextCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum ContextCommand {
    /// List the stored servers; the default.
    List,
    /// Choose the server in use.
    Use { name: String },
    /// Remove a server with its token. The token stays valid: `treeline tokens revoke`.
    Remove { name: String },
}

/// A stored server, without its token.
#[derive(Serialize)]
struct ContextOutput<'a> {
    name: &'a str,
    url: &'a str,
    current: bool,
}

/// Reads a token, checks it at the server, and stores both as the context in use.
pub(super) async fn login(url: Option<&str>, options: Options, json: bool) -> anyhow::Result<Exit> {
    let file = contexts::file().context("set HOME or XDG_CONFIG_HOME to an absolute path")?;
    let mut stored = Contexts::read(&file)?;
    let url = url.unwrap_or(DEFAULT_URL);
    let name = match options.name {
        Some(name) => name,
        None => host(url),
    };
    let token = read_token(url)?;
    let client = Client::new(url, Some(&token))?.with_retry_timeout(super::RETRY_TIMEOUT);
    let me = client.me().await?;
    stored.contexts.insert(name.clone(), Server { url: url.to_owned(), token: Some(token) });
    stored.current = Some(name.clone());
    stored.write(&file)?;
    if json {
        show::json(&me);
    } else {
        let kind = match me.kind {
            OwnerKind::Service => "the service",
            OwnerKind::User => "the user",
        };
        let scopes = if me.scopes.is_empty() { String::new() } else { format!(" with {}", me.scopes.join(", ")) };
        show::print_line(&format!("Signed in to {url} as {kind} {}{scopes}.", show::plain(&me.name)));
        show::print_line(&format!("Context {name} is in use; it is stored in {}.", file.display()));
    }
    Ok(Exit::Done)
}

/// Host of a URL, with its port.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority).to_owned()
}

/// Reads a line from standard input; a terminal is asked, and does not show it.
fn read_token(url: &str) -> anyhow::Result<String> {
    let input = std::io::stdin();
    let hidden = if input.is_terminal() {
        eprint!("Token for {url}: ");
        std::io::stderr().flush()?;
        Some(HiddenInput::start()?)
    } else {
        None
    };
    let mut line = String::new();
    input.lock().read_line(&mut line).context("standard input")?;
    if hidden.is_some() {
        eprintln!();
    }
    let token = line.trim();
    if token.is_empty() {
        bail!("no token was given on standard input");
    }
    Ok(token.to_owned())
}

/// A terminal that does not show what is typed, as long as the value lives.
struct HiddenInput(rustix::termios::Termios);

impl HiddenInput {
    fn start() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

pub(super) fn context(options: ContextOptions, json: bool) -> anyhow::Result<Exit> {
    let file = contexts::file().context("set HOME or XDG_CONFIG_HOME to an absolute path")?;
    let mut stored = Contexts::read(&file)?;
    match options.command.unwrap_or(ContextCommand::List) {
        ContextCommand::List => {
            let current = stored.current.as_deref();
            let contexts = stored.contexts.iter();
            let contexts = contexts
                .map(|(name, server)| ContextOutput { name, url: &server.url, current: current == Some(name) })
                .collect::<Vec<_>>();
            show::list(&contexts, json, ["", "NAME", "URL"], |context| {
                let mark = if context.current { "*" } else { "" };
                [mark.to_owned(), context.name.to_owned(), context.url.to_owned()]
            });
        }
        ContextCommand::Use { name } => {
            stored.choose_current(&name)?;
            stored.write(&file)?;
        }
        ContextCommand::Remove { name } => {
            stored.remove(&name)?;
            stored.write(&file)?;
        }
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_named_after_its_host() {
        assert_eq!(host("https://treeline.example/base?x"), "treeline.example");
        assert_eq!(host("http://127.0.0.1:3000"), "127.0.0.1:3000");
        assert_eq!(host("https://user@treeline.example"), "treeline.example");
    }
}
