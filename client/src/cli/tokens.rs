//! `treeline tokens`: lists API tokens, creates and revokes one. Requires the scope `admin`.

use client::{Client, PageQuery};
use domain::{
    Time,
    id::Uuid,
    identity::access::{NewToken, Token},
};

use super::{Exit, all, show};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List tokens, without their secrets; the default.
    List,
    /// Create a token and print its secret, which is shown only now.
    Create {
        /// Service whose token it is; it must exist.
        #[arg(long)]
        service: String,
        /// Display name.
        #[arg(long)]
        name: String,
        /// jobs:read, jobs:write, work, metrics or admin; may be given more than once.
        #[arg(long = "scope", required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Narrow `work` to this job type; may be given more than once.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Time when the token expires, such as 2027-01-31T00:00:00Z; by default never.
        #[arg(long, value_name = "TIME", value_parser = time)]
        expires_at: Option<Time>,
    },
    /// Revoke a token, with effect within a second.
    Revoke {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
}

fn time(text: &str) -> Result<Time, String> {
    Time::parse(text).ok_or_else(|| "expected a time such as 2027-01-31T00:00:00Z".to_owned())
}

pub(super) async fn run(client: &Client, options: Options, json: bool) -> anyhow::Result<Exit> {
    match options.command.unwrap_or(Command::List) {
        Command::List => {
            let tokens = all(async |page: &PageQuery| client.tokens(page).await).await?;
            show::list(&tokens, json, ["ID", "SERVICE", "NAME", "SCOPES", "STATE"], row);
        }
        Command::Create { service, name, scopes, types, expires_at } => {
            let types = (!types.is_empty()).then_some(types);
            let made = client.create_token(&NewToken { service, name, scopes, types, expires_at }).await?;
            if json {
                show::json(&made);
            } else {
                show::print_line(&made.secret);
            }
        }
        Command::Revoke { id } => client.revoke_token(id).await?,
    }
    Ok(Exit::Done)
}

fn row(token: &Token) -> [String; 5] {
    let state = match (token.revoked_at, token.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("expires {at}"),
        (None, None) => "active".to_owned(),
    };
    [token.id.to_string(), token.service.clone(), token.name.clone(), token.scopes.join(","), state]
}
