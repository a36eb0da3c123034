//! Alert channels.

use app::pages::alert_channels::{AlertChannelPageData, AlertChannels, Typed, list_page, new_page, page};
use domain::{
    Problem,
    id::Uuid,
    notify::{
        alert::AlertKind,
        alert_channel::{AlertChannel, ChannelKind, QuietHours, Weekday},
    },
};

use crate::{Draw, fixtures::at};

fn channel(n: u128, kind: ChannelKind, name: &str, url: Option<&str>, to: &[&str]) -> AlertChannel {
    AlertChannel {
        id: Uuid::from_u128(n),
        name: name.to_owned(),
        kind,
        url: url.map(str::to_owned),
        to: to.iter().map(|it| (*it).to_owned()).collect(),
        kinds: if n == 1 { vec![AlertKind::DeadLetters, AlertKind::Stalled] } else { Vec::new() },
        types: if n == 1 { vec!["import".to_owned(), "send-check".to_owned()] } else { Vec::new() },
        min_count: 1,
        after_seconds: 300,
        send_cleared: true,
        quiet_hours: (n == 1).then(|| QuietHours {
            time_zone: "Europe/Berlin".to_owned(),
            from: "22:00".to_owned(),
            to: "07:00".to_owned(),
            days: vec![Weekday::Saturday, Weekday::Sunday],
        }),
        paused: n == 3,
        created_at: at("2026-11-01T08:00:00Z"),
        updated_at: at("2026-11-01T08:00:00Z"),
    }
}

fn channels() -> Vec<AlertChannel> {
    vec![
        channel(1, ChannelKind::Email, "Payroll desk", None, &["payroll@example.com", "ada@example.com"]),
        channel(2, ChannelKind::Slack, "#operations", Some("https://hooks.slack.example/…"), &[]),
        channel(3, ChannelKind::Pagerduty, "<script>alert(1)</script>", Some("https://events.pagerduty.com/v2/…"), &[]),
        channel(4, ChannelKind::Webhook, "Status page", Some("https://status.example/hooks/treeline"), &[]),
    ]
}

pub(crate) fn all(add: &mut impl FnMut(&'static str, Draw)) {
    add(
        "alert-channels",
        Box::new(|| list_page(&AlertChannels { all: channels(), admin: true, ..AlertChannels::default() })),
    );
    add("alert-channels-empty", Box::new(|| list_page(&AlertChannels { admin: true, ..AlertChannels::default() })));
    add("alert-channel-new", Box::new(|| new_page(&Typed::new(ChannelKind::Slack))));
    add(
        "alert-channel-refused",
        Box::new(|| {
            let fault = ("/to".to_owned(), "expected email addresses, found \"ada\"".to_owned());
            let problem = Some(Problem::invalid_body([fault]));
            new_page(&Typed { to: "ada".to_owned(), problem, ..Typed::new(ChannelKind::Email) })
        }),
    );
    add(
        "alert-channel",
        Box::new(|| {
            let one = channels().remove(0);
            let typed = Typed::of(&one);
            page(&AlertChannelPageData { one, admin: true, typed, refused: None, flash: None })
        }),
    );
}
