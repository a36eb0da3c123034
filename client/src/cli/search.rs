//! `treeline search`: finds things by id, name, key or text.

use client::Client;
use domain::api::SearchKind;

use super::{Exit, show};

pub(super) async fn search(client: &Client, text: &str, json: bool) -> anyhow::Result<Exit> {
    let found = client.search(text).await?;
    if json {
        show::json(&found);
        return Ok(Exit::Done);
    }
    if found.groups.is_empty() {
        eprintln!("Nothing found.");
    }
    for group in &found.groups {
        show::print_line(title(group.kind));
        for hit in &group.hits {
            let detail = hit.detail.as_deref().unwrap_or_default();
            let line = format!("  {}  {}  {detail}  ({})", hit.id, hit.title, hit.matched.replace('_', " "));
            show::print_line(&show::plain(&line));
        }
    }
    Ok(Exit::Done)
}

const fn title(kind: SearchKind) -> &'static str {
    match kind {
        SearchKind::Jobs => "Jobs",
        SearchKind::Items => "Items",
        SearchKind::Errors => "Errors",
        SearchKind::Uploads => "Files",
        SearchKind::Workers => "Workers",
        SearchKind::JobTypes => "Job types",
        SearchKind::Schedules => "Schedules",
        SearchKind::Views => "Saved views",
        SearchKind::BulkOperations => "Bulk operations",
        SearchKind::People => "People",
        SearchKind::Services => "Services",
    }
}
