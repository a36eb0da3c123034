//! `treeline alerts` and `treeline alert-channels`: lists alerts, and manages the channels that receive them.

use client::{Client, PageQuery};
use domain::{
    id::Uuid,
    notify::{
        alert::Alert,
        alert_channel::{AlertChannel, AlertChannelPatch, NewAlertChannel},
        delivery::CallbackDelivery,
    },
};

use super::{Exit, all, input, show};

#[derive(Debug, clap::Args)]
pub(super) struct ChannelOptions {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List alert channels, newest first; the default.
    List,
    /// Print an alert channel as JSON, without its secrets.
    Show {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// Create an alert channel from a JSON file, the body of `POST /alert-channels`; `-` reads standard input.
    Create { file: String },
    /// Change the fields that a JSON file names; `-` reads standard input, and null removes `secret` or `quiet_hours`.
    Edit {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
        file: String,
    },
    /// Send no messages until the channel is resumed.
    Pause {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// Send messages again, also about alerts that are still open.
    Resume {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// Send a test message to each receiver, whatever the rule says.
    Test {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
    /// Delete an alert channel; messages that have not arrived are not sent.
    Delete {
        #[arg(value_parser = super::object_id)]
        id: Uuid,
    },
}

/// Prints the open alerts, newest first.
pub(super) async fn list(client: &Client, json: bool) -> anyhow::Result<Exit> {
    let alerts = all(async |page: &PageQuery| client.alerts(page).await).await?;
    show::list(&alerts, json, ["RAISED", "KIND", "SUBJECT", "COUNT", "MESSAGE"], alert_row);
    Ok(Exit::Done)
}

pub(super) async fn channels(client: &Client, options: ChannelOptions, json: bool) -> anyhow::Result<Exit> {
    match options.command.unwrap_or(Command::List) {
        Command::List => print(&all(async |page: &PageQuery| client.alert_channels(page).await).await?, json),
        Command::Show { id } => show::json(&client.alert_channel(id).await?),
        Command::Create { file } => {
            let new: NewAlertChannel = input::body(&file)?;
            print(&[client.create_alert_channel(&new).await?], json);
        }
        Command::Edit { id, file } => {
            let patch: AlertChannelPatch = input::body(&file)?;
            print(&[client.patch_alert_channel(id, &patch).await?], json);
        }
        Command::Pause { id } => print(&[set_paused(client, id, true).await?], json),
        Command::Resume { id } => print(&[set_paused(client, id, false).await?], json),
        Command::Test { id } => {
            let sent = client.test_alert_channel(id).await?.data;
            show::list(&sent, json, ["DELIVERY", "STATE", "RECEIVER"], delivery_row);
        }
        Command::Delete { id } => client.delete_alert_channel(id).await?,
    }
    Ok(Exit::Done)
}

async fn set_paused(client: &Client, id: Uuid, paused: bool) -> client::Result<AlertChannel> {
    client.patch_alert_channel(id, &AlertChannelPatch { paused: Some(paused), ..AlertChannelPatch::default() }).await
}

fn print(channels: &[AlertChannel], json: bool) {
    show::list(channels, json, ["ID", "NAME", "KIND", "RECEIVER", "ALERTS", "TYPES", "STATE"], channel_row);
}

fn channel_row(channel: &AlertChannel) -> [String; 7] {
    let or_all = |names: String| if names.is_empty() { "all".to_owned() } else { names };
    let kinds: Vec<&str> = channel.kinds.iter().map(|kind| kind.as_str()).collect();
    [
        channel.id.to_string(),
        channel.name.clone(),
        channel.kind.as_str().to_owned(),
        channel.url.clone().unwrap_or_else(|| channel.to.join(",")),
        or_all(kinds.join(",")),
        or_all(channel.types.join(",")),
        if channel.paused { "paused" } else { "active" }.to_owned(),
    ]
}

fn alert_row(alert: &Alert) -> [String; 5] {
    let (kind, subject) = (alert.kind.as_str().to_owned(), alert.subject.clone());
    [alert.raised_at.to_string(), kind, subject, alert.count.to_string(), alert.message.clone()]
}

fn delivery_row(delivery: &CallbackDelivery) -> [String; 3] {
    [delivery.id.to_string(), delivery.state.as_str().to_owned(), delivery.url.clone().unwrap_or_default()]
}
